package fsck

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// history summarizes the log of a run.
type history struct {
	state event.LogState
	whole bool // the log was read completely and is consistent
	newer bool // the log was not read to its end, because a newer release wrote it
	// cid and epoch are the commit ID and the epoch of the last readable frame.
	cid   event.CommitID
	epoch uint64
	items []received
	// causes contains the known records that the log has written, with the time of the first cause.
	// sends contains the same records in order. underived is set if some records could not be
	// derived from the log.
	causes    map[event.ItemID]time.Time
	sends     []store.Send
	underived bool
	// unread contains the items that the last event names as unread. Items that arrived after the
	// code had ended have no event of their own.
	unread []event.ItemID
}

// received is an item that was moved from the inbox to the log.
type received struct {
	id      event.ItemID
	at      time.Time
	carried bool // received from the previous run, whose log also contains the item
}

// checkLog reads a log, and checks the parts of invariants 1, 2 and 3 that concern one log.
func (c *checker) checkLog(r *store.RunState) *history {
	h := &history{causes: map[event.ItemID]time.Time{}}
	if len(r.Frames) == 0 {
		c.lasting(1, r.Run, "its log is empty", "it cannot be identified")
		return h
	}
	var before *event.Frame
	for i, b := range r.Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			h.newer = errors.As(err, new(*event.VersionError))
			c.lasting(1, r.Run, fmt.Sprintf("frame %d: %v", i+1, err), "the run cannot be replayed")
			return h
		}
		if !c.checkSequence(r, i, before, f) {
			return h
		}
		c.checkFence(r, i, before, f)
		if h.state.Run.Terminal() {
			c.lasting(2, r.Run, fmt.Sprintf("frame %d follows the end of the run", i+1), "a writer that should have been fenced has written")
			return h
		}
		if !c.applyFrame(r, h, f) {
			return h
		}
		before = f
		h.cid, h.epoch = f.CommitID, max(h.epoch, f.Epoch)
	}
	h.whole = true
	if r.N != uint64(len(r.Frames)) || r.Seq != before.Last() || r.Last != before.CommitID {
		c.find(1, r.Run, fmt.Sprintf("its record ends with frame %d (%s), event %d; its log ends with frame %d (%s), event %d",
			r.N, r.Last, r.Seq, len(r.Frames), before.CommitID, before.Last()), "no commit can continue the log")
	}
	if r.Fence.Epoch < before.Epoch {
		c.find(2, r.Run, fmt.Sprintf("its epoch is %d, that of its last frame %d", r.Fence.Epoch, before.Epoch), "an epoch would be assigned twice")
	}
	if r.QueueState == store.StateOwned && r.Fence.Epoch == before.Epoch && r.Fence.Token != before.Token {
		c.find(2, r.Run, fmt.Sprintf("its last frame has epoch %d, like its owner, and another token", before.Epoch), "two writers share an epoch")
	}
	return h
}

// checkSequence reports whether frame i continues the frame before it.
func (c *checker) checkSequence(r *store.RunState, i int, before, f *event.Frame) bool {
	var cid event.CommitID
	last := uint64(0)
	if before != nil {
		cid, last = before.CommitID, before.Last()
	}
	if f.Prev != cid {
		c.lasting(1, r.Run, fmt.Sprintf("frame %d follows frame %s, but comes after %s", i+1, f.Prev, cid), "a frame is missing or foreign")
		return false
	}
	if f.First() != last+1 {
		c.lasting(1, r.Run, fmt.Sprintf("frame %d begins with event %d, but the log ended at %d", i+1, f.First(), last), "events are missing or duplicated")
		return false
	}
	return true
}

func (c *checker) checkFence(r *store.RunState, i int, before, f *event.Frame) {
	switch {
	case before == nil:
	case f.Epoch < before.Epoch:
		c.lasting(2, r.Run, fmt.Sprintf("frame %d has epoch %d, the one before %d", i+1, f.Epoch, before.Epoch), "a writer that should have been fenced has written")
	case f.Epoch == before.Epoch && f.Token != before.Token:
		c.lasting(2, r.Run, fmt.Sprintf("frame %d has epoch %d, like the one before, and another token", i+1, f.Epoch), "two writers shared an epoch")
	}
}

// applyFrame adds a frame to the history of the run. It reports whether the frame is valid.
func (c *checker) applyFrame(r *store.RunState, h *history, f *event.Frame) bool {
	for i := range f.Events {
		e := &f.Events[i]
		if err := h.state.Apply(e); err != nil {
			invariant := 1
			if errors.As(err, new(*event.TransitionError)) {
				invariant = 3
			}
			c.lasting(invariant, r.Run, err.Error(), "the run cannot be replayed")
			return false
		}
		if f.First() > 1 { // the creation of a run sends nothing
			c.note(r.Run, h, e)
		}
		if len(e.Unread) > 0 {
			h.unread = e.Unread
		}
		first := f.First() == 1
		if e.Item == "" || e.Type == event.MessageSent || first && h.state.Spec.RerunOf != "" {
			continue // the item was sent to another run, or was received by the run that this one repeats
		}
		h.items = append(h.items, received{id: e.Item, at: e.Time, carried: first && h.state.Spec.ContinuedOf != ""})
	}
	return true
}
