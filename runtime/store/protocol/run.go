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
	CreatedBy  event.ItemID // outbox record that created the run; empty once confirmed
	QueueState store.QueueState
	Status     event.Status
	N, Seq     uint64         // number of frames; sequence number of the last event
	Last       event.CommitID // commit id of the last frame
	Fence      store.Fence
	Owner      S
	Unread     int // number of items in the inbox
	Due        int64
	Created    int64
	Ended      int64
	Purge      int64 // earliest time of the purge; 0 if the run has not ended or is held back
	Retention  time.Duration
	Recoveries int
	Closing    bool
	Exempt     bool
	Hidden     bool
	Group      string // failure group; empty if it is in none

	// Collect is the key whose starts the run collects; empty if it collects none.
	Collect string

	// Limited reports that the run uses limits. Permits reports that it holds its permits, and
	// Whole that it keeps them to its end. LeftQueue reports that it left its limiter queue without
	// permits, only to end.
	Limited, Permits, Whole, LeftQueue bool
	Place                              int64
	// WaitsSince is the time at which the limits first lacked free capacity for the run: when it
	// entered its limiter queue or was first examined. It is 0 if they did not. It is kept as long
	// as Place.
	WaitsSince int64

	// Fair reports whether the run has a fairness key. Place of such a run, while it is ready, is
	// its position among all ready runs of its route and priority. The run keeps it until it parks.
	Fair bool
}

// Holds reports whether f is the fence of the present owner. It returns false for a run without an
// owner, because an empty token never matches. [F1]
func (s *Run[S]) Holds(f store.Fence) bool {
	return s.QueueState == store.StateOwned && s.Fence == f
}

// Op carries out operations on a partition. Each method is one operation and one atomic action of
// Tx. After each operation the store must carry out the notifications in Changes and call
// Changes.Reset.
type Op[R, S comparable] struct {
	Tx      Tx[R, S]
	Changes Changes[R]
}

// Changes lists the changes made by operations, so that the store can notify waiting callers. A run
// may occur twice in a list.
type Changes[R comparable] struct {
	Ready   []R       // runs that became ready: the wake of their route is set [K2]
	Blocked []R       // runs that became blocked: all waiting calls for their route are notified [B3]
	Due     []R       // runs with a new earliest due time: the wake of their route is set, and calls that wait for a later time are notified [K3]
	Unread  []R       // owned runs with a new item
	Frames  []R       // runs whose log has grown, and runs that are gone
	Turns   []Turn[R] // limiter queues with a new earliest time for a recheck, treated like Due
	// Streams are streams with new data. An empty name means all streams of the chain, because its
	// run has ended or is gone.
	Streams []StreamChange
}

// StreamChange identifies a stream of a chain.
type StreamChange struct {
	Chain event.RunID
	Name  string
}

// Turn is the time at which a limiter queue must be rechecked. First is the first run of the queue.
type Turn[R comparable] struct {
	First R
	At    int64
}

// Reset removes all changes, but keeps the memory for reuse.
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

// Answer separates a refusal from a failure. It returns the error inside a Refused as refused, and
// any other error as failed.
func Answer(err error) (refused, failed error) {
	if no, ok := err.(Refused); ok { //nolint:errorlint // operations do not wrap it
		return no.Err, nil
	}
	return nil, err
}

// find returns a run. It returns the zero value if the run does not exist or was deleted.
// Operations that also handle deleted runs use the Tx directly.
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

// leave clears the fields that belong to the run's queue state. The caller must give the run
// another queue state in the same action. begins reports whether a session receives the run. [F2]
func (o *Op[R, S]) leave(r R, s *Run[S], begins bool) error {
	if err := o.leaveFairKey(r, s, begins); err != nil {
		return err
	}
	var none S
	s.QueueState, s.Owner, s.Fence.Token, s.Due, s.Exempt = 0, none, event.Token{}, 0, false
	return nil
}

// makeReady makes a run ready. It sets the queue state, adds the run to the ready set or to its
// limiter queue, and sets the wake. No other function makes a run ready. [K2]
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
	return o.settle(left) // after the run has entered its queue, because it may precede others there
}

// park parks the run until due or until an item arrives. If due is 0, only an item ends the wait.
// [K3]
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

// block blocks a run until a session arrives that may try it. [B3]
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

// addBlocker adds the owner to the sessions that have blocked the run. It removes sessions that are
// over or have the same code as the owner. [B1]
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

// end ends the run and passes its workflow id to the next waiting run.
func (o *Op[R, S]) end(r R, s *Run[S]) error {
	var none R
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{Chain: s.Chain})
	if err := o.retire(r, s); err != nil || s.WorkflowID == "" {
		return err
	}
	if active, err := o.Tx.IsActive(r); err != nil || !active { // the run only waited for the workflow id, and retire has removed it from that queue
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

// retire removes the run from all sets, and keeps only its log and its workflow id.
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

// Millis returns t in milliseconds. It rounds up, so that nothing is due too early, and limits the
// result to the range of event.Instant. It returns 0 for the zero time.
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
