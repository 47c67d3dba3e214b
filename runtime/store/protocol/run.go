package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Run has the fields of a run that the protocol reads and changes. Times are in
// milliseconds, 0: none.
type Run[S comparable] struct {
	ID         event.RunID
	Chain      event.RunID
	WorkflowID string
	CreatedBy  event.ItemID // the record that created it, until it is confirmed
	QueueState store.QueueState
	Status     event.Status
	N, Seq     uint64         // frames, and the last event
	Last       event.CommitID // of the last frame
	Fence      store.Fence
	Owner      S
	Unread     int // items in the inbox
	Due        int64
	Created    int64
	Ended      int64
	Purge      int64 // from when on it may be purged; 0: it has not ended, or is held back
	Retention  time.Duration
	Recoveries int
	Closing    bool
	Exempt     bool
	Hidden     bool
	Group      string // of its trouble; empty: it is in none

	// Gather is the key of which it gathers the starts; empty: it does not, or no more.
	Gather string

	// Of a run that uses limits: whether it has its permits, and keeps them to its end;
	// whether it left its line without them, only to end; and its place among those who
	// wait, which it keeps if it loses its owner; 0: it has none.
	Limited, Permits, Whole, CalledOff bool
	Place                              int64
	// WaitsSince is when there was no room for it in the limits, which is when it came into line
	// or when it was asked first; 0: there was. It goes with Place.
	WaitsSince int64

	// Whether the run has a fair key: then its Place, while it is ready, is where it stands among
	// all ready runs of its route and priority, and it keeps it until it has parked.
	Fair bool
}

// Holds reports whether f is the fence of the present owner. A run without an owner is
// held by nobody: an empty token opens nothing. [F1]
func (s *Run[S]) Holds(f store.Fence) bool {
	return s.QueueState == store.StateOwned && s.Fence == f
}

// Op carries out operations on a partition: each method is one, and one atomic action
// of Tx. Between two of them the store does what Changes asks for and calls Changes.Reset.
type Op[R, S comparable] struct {
	Tx      Tx[R, S]
	Changes Changes[R]
}

// Changes lists the changes of operations for those who wait. A run may be in a
// list twice.
type Changes[R comparable] struct {
	Ready   []R       // were made ready: the wake of their route is set [K2]
	Blocked []R       // were blocked: all who wait for their route are told [B3]
	Due     []R       // have a due time earlier than all others: the wake of their route is set, and those who wait for a later time are told [K3]
	Unread  []R       // are owned, and have a new item
	Frames  []R       // have a longer log, or are gone
	Turns   []Turn[R] // as Due, for lines
	// Streams are those in which somebody may read something new. Without a name all of
	// the chain are meant: it has ended, or is gone.
	Streams []StreamChange
}

// StreamChange names a stream of a chain.
type StreamChange struct {
	Chain event.RunID
	Name  string
}

// Turn says when somebody must look at a line, which has this first run.
type Turn[R comparable] struct {
	First R
	At    int64
}

// Reset forgets all changes, and keeps the memory for the next ones.
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

// Refused is the answer of an operation whose guards did not let it through: it has
// written nothing.
type Refused struct{ Err error } //nolint:errname // an operation is refused: it is an answer

// Error is that of the refusal.
func (r Refused) Error() string { return r.Err.Error() }

// Unwrap returns the refusal.
func (r Refused) Unwrap() error { return r.Err }

func refuse(err error) error { return Refused{err} }

// Answer takes a refusal out of its wrapping; any other error is failed.
func Answer(err error) (refused, failed error) {
	if no, ok := err.(Refused); ok { //nolint:errorlint // operations do not wrap it
		return no.Err, nil
	}
	return nil, err
}

// find returns a run, none if there is none or it was deleted. Only what must know of
// deleted runs asks the Tx itself.
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

// leave takes from a run what belongs to its queue state. The caller puts it into another
// one, in the same action. begins: a session has it. [F2]
func (o *Op[R, S]) leave(r R, s *Run[S], begins bool) error {
	if err := o.leaveFlow(r, s, begins); err != nil {
		return err
	}
	var none S
	s.QueueState, s.Owner, s.Fence.Token, s.Due, s.Exempt = 0, none, event.Token{}, 0, false
	return nil
}

// makeReady is the one way to ready: queue state, ready set or line, wake. [K2]
func (o *Op[R, S]) makeReady(r R, s *Run[S]) error {
	left, err := o.depart(r, s, false)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	if err := o.enterFlow(r, s); err != nil {
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
	return o.settle(left) // once it is in line: it has a place there, and may be before others
}

// park leaves the run until due, 0 for ever, or until an item arrives. [K3]
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
	if unused != store.UnusedInLine {
		s.Place, s.WaitsSince = 0, 0
	}
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(left)
}

// block puts a run aside until a session may try it. [B3]
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

// addBlocker adds the owner to the sessions that have blocked the run, and forgets
// those that are over, or have the same code. [B1]
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

// end retires the run and hands its workflow id to the next in line.
func (o *Op[R, S]) end(r R, s *Run[S]) error {
	var none R
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{Chain: s.Chain})
	if err := o.retire(r, s); err != nil || s.WorkflowID == "" {
		return err
	}
	if active, err := o.Tx.IsActive(r); err != nil || !active { // it was taken out of the line
		return err
	}
	next, err := o.Tx.NextInLine(r)
	if err != nil {
		return err
	}
	if err := o.Tx.SetActive(r, next, true); err != nil || next == none {
		return err
	}
	following := o.Tx.State(next)
	return o.makeReady(next, &following)
}

// retire takes the run out of everything but the log and its workflow id.
func (o *Op[R, S]) retire(r R, s *Run[S]) error {
	left, err := o.depart(r, s, true)
	if err != nil {
		return err
	}
	if err := o.leave(r, s, false); err != nil {
		return err
	}
	s.Gather = ""
	s.QueueState, s.Unread, s.Closing, s.Ended = store.StateEnded, 0, false, o.Tx.Now().UnixMilli()
	if err := o.schedule(r, s); err != nil {
		return err
	}
	if err := o.Tx.Clear(r); err != nil {
		return err
	}
	s.CalledOff, s.Place, s.WaitsSince = false, 0, 0
	if err := o.Tx.Save(r, *s); err != nil {
		return err
	}
	return o.settle(left)
}

// Millis returns t in milliseconds, rounded up so that nothing is due too early, and
// within the times of event.Instant; 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return event.Instant(t).UnixMilli()
}

// Time is the opposite of Millis.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
