package storetest

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// What the model knows of streams.

// publish is Publish of package store.
func (m *model) publish(run event.RunID, fence store.Fence, chunks []store.Publication) error {
	r := m.find(run)
	if r == nil || r.Place != store.PlaceOwned || r.Fence != fence {
		return store.ErrFenced
	}
	for _, c := range chunks {
		if st := m.streams[r.Chain][c.Stream]; st.Closed && !wrote(st, c) {
			return store.ErrStreamClosed
		}
	}
	m.publishAll(r, chunks)
	return nil
}

func wrote(st store.StreamState, c store.Publication) bool {
	return c.Writer != "" && st.Writers[c.Writer] >= c.Nth
}

// publishAll does what publications say, one after the other.
func (m *model) publishAll(r *modelRun, all []store.Publication) {
	for _, p := range all {
		of := m.streams[r.Chain]
		if p.Drop {
			delete(of, p.Stream)
		}
		st, there := of[p.Stream]
		if there || p.Body != nil || p.Close {
			if of == nil {
				of = map[string]store.StreamState{}
				m.streams[r.Chain] = of
			}
			of[p.Stream] = published(st, p)
		}
		if len(of) == 0 {
			delete(m.streams, r.Chain)
		}
	}
}

// published returns how a stream stands after a publication.
func published(st store.StreamState, p store.Publication) store.StreamState {
	if p.Body != nil && !st.Closed && !wrote(st, p) {
		st.Last++
		st.Chunks = append(slices.Clone(st.Chunks), store.Chunk{Index: st.Last, Body: p.Body})
		if p.Writer != "" {
			if st.Writers == nil {
				st.Writers = map[string]uint64{}
			}
			st.Writers[p.Writer] = p.Nth
		}
	}
	if n := len(st.Chunks); p.Keep > 0 && n > p.Keep {
		st.Chunks = st.Chunks[n-p.Keep:]
	}
	st.Closed = st.Closed || p.Close
	return st
}

// readStream is ReadStream of package store.
func (m *model) readStream(q store.ReadStream) (store.StreamPage, error) {
	r := m.find(q.Run)
	if r == nil {
		return store.StreamPage{}, store.ErrRunNotFound
	}
	st := m.streams[r.Chain][q.Stream]
	page := store.StreamPage{Last: st.Last, Closed: st.Closed, Ended: m.chainEnded(r)}
	if len(st.Chunks) > 0 {
		page.First = st.Chunks[0].Index
	}
	chunks := slices.DeleteFunc(slices.Clone(st.Chunks), func(c store.Chunk) bool { return q.Tail <= 0 && c.Index < q.From })
	if q.Tail > 0 {
		chunks = chunks[max(0, len(chunks)-q.Tail):]
	}
	if q.Limit != 0 {
		chunks = chunks[:min(len(chunks), max(0, q.Limit))]
	}
	page.Chunks = chunks
	return page, nil
}

// chainEnded reports whether no run of a chain can write any more.
func (m *model) chainEnded(r *modelRun) bool {
	for _, o := range m.runs {
		if o.Chain == r.Chain && o.Place != store.PlaceEnded {
			return false
		}
	}
	return true
}
