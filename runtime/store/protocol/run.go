package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Run has the fields of a run that the protocol reads and changes. Times are in milliseconds; 0
// means none.
type Run[S comparable] struct {
	ID         event.RunID
	Chain      event.RunID
	WorkflowID string
	CreatedBy  event.ItemID // record that created it, until it is confirmed
	QueueState store.QueueState
	Status     event.Status
	N, Seq     uint64         // number of frames, and sequence number of the last event
	Last       event.CommitID // of the last frame
	Fence      store.Fence
	Owner      S
	Unread     int // number of items in the inbox
	Due        int64
	Created    int64
	Ended      int64
	Purge      int64 // earliest time of its purge; 0 if it has not ended, or is held back
	Retention  time.Duration
	Recoveries int
	Closing    bool
	Exempt     bool
	Hidden     bool
	Group      string // failure group; empty if it is in none

	// Gather is the key whose starts the run collects; empty if it collects none.
	Collect string

	// For a run that uses limits: whether it has its permits, and keeps them to its end; whether it
	// left its limiter queue without them, only to end; and its Place among the waiting runs, which
	// it keeps if it loses its owner; 0 means none.
	Limited, Permits, Whole, LeftQueue bool
	Place                              int64
	// WaitsSince is when the limits lacked free capacity for the run: when it entered its limiter
	// queue or was first examined; 0 if they did not. It is kept as long as Place.
	WaitsSince int64

	// Fair reports whether the run has a fairness key. Its Place, while it is ready, is then its
	// position among all ready runs of its route and priority, and it keeps it until it has parked.
	Fair bool
}

// Holds reports whether f is the fence of the present owner. A run without an owner is held by no
// session: an empty token never matches. [F1]
func (s *Run[S]) Holds(f store.Fence) bool {
	return s.QueueState == store.StateOwned && s.Fence == f
}

// Op carries out operations on a partition: each method is one operation, and one atomic action of
// Tx. Between two of them the store must carry out the notifications in Changes and call
// Changes.Reset.
type Op[R, S comparable] struct {
	Tx      Tx[R, S]
	Changes Changes[R]
}

// Changes lists the changes by operations, for the notification of waiting callers. A run may be in
// a list twice.
type Changes[R comparable] struct {
	Ready   []R       // became ready: the wake of their route is set [K2]
	Blocked []R       // became blocked: all waiting calls for their route are notified [B3]
	Due     []R       // have a due time earlier than all others: the wake of their route is set, and calls that wait for a later time are notified [K3]
	Unread  []R       // are owned, and have a new item
	Frames  []R       // have a longer log, or are gone
	Turns   []Turn[R] // as Due, for limiter queues
	// Streams are streams with something new to read. An empty name means all streams of the chain,
	// because it has ended or is gone.
	Streams []StreamChange
}

// StreamChange identifies a stream of a chain.
type StreamChange struct {
	Chain event.RunID
	Name  string
}

// Turn is the time at which a limiter queue, with the given first run, must be rechecked.
type Turn[R comparable] struct {
	First R
	At    int64
}

// Reset drops all changes, and keeps the memory for the next ones.
func (c *Changes[R]) Reset() {
	c.Ready, c.Blocked, c.Due = emptied(c.Ready), emptied(c.Blocked), emptied(c.Due)
	c.Unread, c.Frames, c.Streams, c.Turns = emptied(c.Unread), emptied(c.Frames), emptied(c.Streams), emptied(c.Turns)
}

func emptied[T any](list []T) []T {
	if cap(list) > 256 {
		return nil
	}
	clear(list)
	return list[:0]
}

// Refused is the answer of an operation that its guards have rejected. The operation has written
// nothing.
type Refused struct{ Err error } //nolint:errname // an operation is refused: it is an answer

// Error returns the text of the refusal.
func (r Refused) Error() string { return r.Err.Error() }

// Unwrap returns the refusal.
func (r Refused) Unwrap() error { return r.Err }

func refuse(err error) error { return Refused{err} }

// Answer separates a refusal from a failure: it returns the error inside a Refused, or err as
// failed.
func Answer(err error) (refused, failed error) {
	if no, ok := err.(Refused); ok { //nolint:errorlint // operations do not wrap it
		return no.Err, nil
	}
	return nil, err
}

// find returns a run, or the zero value if it does not exist or was deleted. Operations that must
// see deleted runs use the Tx directly.
func (o *Op[R, S]) find(id event.RunID) (r R, s Run[S], err error) {
	var none R
	r, err = o.Tx.Run(id)
	if err != nil || r == none {
		return none, s, err
	}
	if s = o.Tx.State(r); s.Hidden {
		return none, s, nil
	}
	return r, s, nil
}

// leave removes from a run what belongs to its queue state. The caller must put it into another
// state in the same action. begins reports that a session gets it. [F2]
func (o *Op[R, S]) leave(r R, s *Run[S], begins bool) error {
	if err := o.leaveFairKey(r, s, begins); err != nil {
		return err
	}
	var none S
	s.QueueState, s.Owner, s.Fence.Token, s.Due, s.Exempt = 0, none, event.Token{}, 0, false
	return nil
}

// makeReady is the only way to make a run ready: it sets the queue state, adds the run to the ready
// set or limiter queue, and sets the wake. [K2]
func (o *Op[R, S]) makeReady(r R, s *Run[S]) error {
	left, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	if err := o.enterFairKey(r, s); err != nil {
		return err
	}
	s.QueueState = store.StateReady
	if s.Waits() {
		err = o.join(r, s)
	} else {
		o.Changes.Ready = append(o.Changes.Ready, r)
		err = o.Tx.Save(r, *s)
	}
	if err != nil {
		return err
	}
	return o.settle(left) // once it is in its queue, where it may precede others
}

// park leaves the run until due, or forever if due is 0, or until an item arrives. [K3]
func (o *Op[R, S]) park(r R, s *Run[S], due int64, unused store.Unused) error {
	left, err := o.depart(r, s, unused != store.UnusedNone)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	s.QueueState, s.Due = store.StateParked, due
	if due != 0 {
		earliest, err := o.Tx.NextDue()
		if err != nil {
			return err
		}
		if earliest == 0 || due < earliest {
			o.Changes.Due = append(o.Changes.Due, r)
		}
	}
	if unused != store.UnusedInQueue {
		s.Place, s.WaitsSince = 0, 0
	}
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(left)
}

// block sets a run aside until a session may try it. [B3]
func (o *Op[R, S]) block(r R, s *Run[S]) error {
	left, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	s.QueueState = store.StateBlocked
	o.Changes.Blocked = append(o.Changes.Blocked, r)
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(left)
}

// addBlocker adds the owner to the sessions that have blocked the run, and drops those that are
// over or have the same code. [B1]
func (o *Op[R, S]) addBlocker(r R, s *Run[S]) error {
	owner, err := o.Tx.Session(s.Owner)
	if err != nil {
		return err
	}
	known, err := o.Tx.Blockers(r)
	if err != nil {
		return err
	}
	kept := make([]S, 0, len(known)+1)
	for _, b := range known {
		other, err := o.Tx.Session(b)
		if err != nil {
			return err
		}
		if !other.Over && other.Code != owner.Code {
			kept = append(kept, b)
		}
	}
	o.Tx.SetBlockers(r, append(kept, s.Owner))
	return nil
}

// end retires the run and passes its workflow id to the next waiting run.
func (o *Op[R, S]) end(r R, s *Run[S]) error {
	var none R
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{Chain: s.Chain})
	if err := o.retire(r, s); err != nil || s.WorkflowID == "" {
		return err
	}
	if active, err := o.Tx.IsActive(r); err != nil || !active { // it was removed from the runs that wait for the workflow id
		return err
	}
	next, err := o.Tx.NextInQueue(r)
	if err != nil {
		return err
	}
	if err := o.Tx.SetActive(r, next, true); err != nil || next == none {
		return err
	}
	following := o.Tx.State(next)
	return o.makeReady(next, &following)
}

// retire removes the run from everything but its log and its workflow id.
func (o *Op[R, S]) retire(r R, s *Run[S]) error {
	left, err := o.depart(r, s, true)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	s.Collect = ""
	s.QueueState, s.Unread, s.Closing, s.Ended = store.StateEnded, 0, false, o.Tx.Now().UnixMilli()
	if err := o.schedule(r, s); err != nil {
		return err
	}
	if err := o.Tx.Clear(r); err != nil {
		return err
	}
	s.LeftQueue, s.Place, s.WaitsSince = false, 0, 0
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(left)
}

// Millis returns t in milliseconds, rounded up so that nothing is due too early, and limited to the
// range of event.Instant; 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return event.Instant(t).UnixMilli()
}

// Time is the inverse of Millis.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
