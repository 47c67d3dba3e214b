package memstore

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Commit appends frames and carries out effects. The store keeps the frames.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for i := range commits {
		if err := errors.Join(commits[i].CheckPublish(), s.continuable(&commits[i])); err != nil {
			return nil, err
		}
	}
	answers := make([]store.Committed, len(commits))
	s.byPartition(len(commits), func(i int) event.RunID { return commits[i].Run }, func(p *partition, i int) {
		answers[i] = p.commit(&commits[i])
	})
	return answers, nil
}

func (p *partition) commit(c *store.Commit) store.Committed {
	r := p.find(c.Run)
	if r == nil {
		return store.Committed{Err: store.ErrFenced}
	}
	if c.Frame != nil && r.last == c.CID { // an earlier try got through
		return store.Committed{N: uint64(len(r.frames)), Mail: r.holds(c.Fence) && len(r.inbox) > 0}
	}
	err := r.refuse(c)
	if err == nil && c.Effect == store.EffectContinue {
		err = p.refuseContinue(r, c)
	}
	if err != nil {
		return store.Committed{Err: err}
	}
	if c.Frame != nil {
		p.append(r, c)
	}
	r.consume(c.Consume)
	for i := range c.Send {
		p.outbox.write(r, &c.Send[i], p.now())
	}
	for i := range c.Publish {
		p.write(r.chain, &c.Publish[i])
	}
	if c.Progress {
		r.recoveries = 0
	}
	if c.Status != "" {
		r.status = c.Status
	}
	r.closing = c.Closing && c.Effect == store.EffectNone
	r.exempt = c.Exempt.After(r.exempt, c.Progress)
	p.effect(r, c)
	return store.Committed{N: uint64(len(r.frames)), Mail: r.place == store.PlaceOwned && len(r.inbox) > 0}
}

// refuse is the guards of a commit, in their order.
func (r *run) refuse(c *store.Commit) error {
	if !r.holds(c.Fence) {
		return store.ErrFenced
	}
	if c.WorkflowID != r.wid {
		return &store.WorkflowIDMismatchError{Run: r.id, Got: c.WorkflowID, Want: r.wid}
	}
	if r.last != c.Prev {
		return r.conflict(c, "it continues another frame")
	}
	if c.Frame != nil && c.First != r.seq+1 {
		return r.conflict(c, "it does not continue the sequence")
	}
	if c.Consume > 0 && (c.Consume > len(r.inbox) || r.inbox[c.Consume-1].ID != c.ConsumeLast) {
		return r.conflict(c, "it consumes items that the inbox does not hold")
	}
	if (c.Effect == store.EffectPark || c.Effect == store.EffectFinish) && len(r.inbox) > max(c.Consume, 0) {
		return store.ErrMail
	}
	return nil
}

func (r *run) conflict(c *store.Commit, reason string) error {
	return &store.ConflictError{Run: r.id, Seq: c.First, StoredSeq: r.seq, Prev: c.Prev, Stored: r.last, Reason: reason}
}

// append writes the frame and tells those who watch the log.
func (p *partition) append(r *run, c *store.Commit) {
	r.frames = append(r.frames, c.Frame)
	r.seq, r.last = c.Last, c.CID
	p.publish(r)
}

// consume removes the first n items. The array behind the inbox is left as it
// is: readers may share it.
func (r *run) consume(n int) {
	if n <= 0 {
		return
	}
	r.inbox = r.inbox[n:]
	if len(r.inbox) == 0 {
		r.inbox = nil
		r.owner.read(r)
	}
}

func (p *partition) effect(r *run, c *store.Commit) {
	switch c.Effect {
	case store.EffectPark:
		p.park(r, millis(c.Due))
	case store.EffectYield:
		p.makeReady(r)
	case store.EffectBlock:
		p.note(r, r.owner)
		p.block(r)
	case store.EffectFinish:
		p.end(r)
	case store.EffectContinue:
		p.goOn(r, c.Continue)
	}
}
