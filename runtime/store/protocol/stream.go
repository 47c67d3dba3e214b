package protocol

import (
	"bytes"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Publish appends chunks to streams of an owned run. It appends all chunks or none.
func (o *Op[R, S]) Publish(run event.RunID, fence store.Fence, chunks []store.Publication) error {
	var none R
	r, s, err := o.find(run)
	if err != nil {
		return err
	}
	if r == none || !s.Holds(fence) { // the fence must match [F1]
		return refuse(store.ErrFenced)
	}
	for i := range chunks {
		c := &chunks[i]
		st, err := o.Tx.Stream(s.Chain, c.Stream)
		if err != nil {
			return err
		}
		if !st.Closed {
			continue
		}
		if there, err := o.written(st, c); err != nil {
			return err
		} else if !there {
			return refuse(fmt.Errorf("stream %q: %w", c.Stream, store.ErrStreamClosed))
		}
	}
	for i := range chunks {
		if err := o.publish(s.Chain, &chunks[i]); err != nil {
			return err
		}
	}
	return nil
}

// written reports whether the stream contains the chunk already.
func (o *Op[R, S]) written(st Stream, p *store.Publication) (bool, error) {
	if p.Writer == "" || !st.Found {
		return false, nil
	}
	nth, err := o.Tx.Written(st, p.Writer)
	return nth >= p.Nth, err
}

// publish applies a publication to its stream.
func (o *Op[R, S]) publish(chain event.RunID, p *store.Publication) error {
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{chain, p.Stream})
	st, err := o.Tx.Stream(chain, p.Stream)
	if err != nil {
		return err
	}
	if p.Drop && st.Found {
		if err := o.Tx.DropStream(st); err != nil {
			return err
		}
		st = Stream{Chain: chain, Name: p.Stream, First: 1}
	}
	if !st.Found {
		if p.Body == nil && !p.Close {
			return nil
		}
		if st, err = o.Tx.SaveStream(st); err != nil {
			return err
		}
	}
	before := st
	if p.Body != nil && !st.Closed {
		there, err := o.written(st, p)
		if err != nil {
			return err
		}
		if !there {
			st.Last++
			if err := o.Tx.AddChunk(st, p); err != nil {
				return err
			}
		}
	}
	if n := st.Last + 1 - st.First; p.Keep > 0 && n > uint64(p.Keep) {
		st.First = st.Last - uint64(p.Keep) + 1
		if err := o.Tx.TrimStream(st); err != nil {
			return err
		}
	}
	st.Closed = st.Closed || p.Close
	if st == before {
		return nil
	}
	_, err = o.Tx.SaveStream(st)
	return err
}

// SetStepData keeps step data of an owned run until the run ends. If progress is set and the data
// differs from the previous data, it resets the recoveries of the run.
func (o *Op[R, S]) SetStepData(run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	var none R
	r, s, err := o.find(run)
	if err != nil {
		return err
	}
	if r == none || !s.Holds(fence) { // the fence must match [F1]
		return refuse(store.ErrFenced)
	}
	if progress && s.Recoveries > 0 {
		before, found, err := o.Tx.StepData(r, key)
		if err != nil {
			return err
		}
		if !found || !bytes.Equal(before, body) {
			s.Recoveries = 0
			if err := o.Tx.Save(r, s); err != nil {
				return err
			}
		}
	}
	return o.Tx.SetStepData(r, key, body)
}
