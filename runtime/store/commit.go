package store

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Effect is the change that a commit makes to the run beside appending.
type Effect uint8

// The effects.
const (
	EffectNone   Effect = 0
	EffectPark   Effect = 1 // give it back until Due, or until an item arrives
	EffectYield  Effect = 2 // give it back, ready, after all others of its route
	EffectBlock  Effect = 3 // give it back: the code of the session could not replay it
	EffectFinish Effect = 4 // it has ended
	// EffectContinue ends the run and puts Continue into its place, in one action:
	// the new run is ready, is the active run of the workflow id, takes over the
	// rest of the inbox, and follows it in its chain.
	EffectContinue Effect = 5
)

// Commit asks for one frame and one effect. A commit without a frame carries
// out only the effect.
type Commit struct {
	Run        event.RunID
	WorkflowID string // must be that of the run
	Fence      Fence
	Prev       event.CommitID // the last frame that the owner knows

	Frame    []byte // nil: none
	CommitID event.CommitID
	First    uint64 // first event of the frame
	Last     uint64 // last event of the frame

	// Consume removes that many items from the front of the inbox; ConsumeLast
	// names the last of them.
	Consume     int
	ConsumeLast event.ItemID

	Effect Effect
	Due    time.Time    // park: zero means no due time
	Status event.Status // label for people; empty: unchanged
	// Progress says that the run got further: its recoveries are forgotten.
	Progress bool
	// Exempt changes whether a run that stays owned is exempt. Progress ends it, too.
	Exempt Exempt
	// Send are records for the outbox, in the order of their delivery. The events
	// that cause them are in the frame.
	Send []Send
	// Publish changes the streams of the chain, one after the other. Its cause is
	// in the frame, or is an item that is consumed: a commit that publishes has
	// one of them, by which a repetition is recognised.
	Publish []Publication
	// Continue is the new run of EffectContinue. Its Run has the slot of this one's
	// partition, its WorkflowID is that of this run; its first frame holds the items
	// that the code of this run has not taken. Policies, Delay, At, CreatedBy and
	// Deadline are ignored: it starts at once. Without a Continue, or with one
	// of another partition or workflow id, the whole call fails and writes nothing.
	Continue *Create
	// Closing makes Deliver answer ErrLater until the run is committed or
	// claimed again; used when items keep coming while the run tries to end. It
	// counts only with EffectNone, for a run that stays owned.
	Closing bool
	// HoldBack closes the rates of the limits that the run uses: nothing begins by them for
	// so long, at most MaxHoldBack, and then one weight after the other, evenly. A rate that
	// is closed for longer stays so. Zero, a run without limits, or limits without a rate:
	// nothing. It comes with a frame, by which a repetition is recognised.
	HoldBack time.Duration
	// Unused is what becomes of the permits of a run that parks, if it has begun nothing with them. It goes with
	// EffectPark.
	Unused Unused
	// Trouble changes the label of the run: nil leaves it as it is, one without a group takes it
	// away. Label says what becomes of it at the end of a run. See [Trouble].
	Trouble *Trouble
	// Next asks for runs that become ready as this commit gives its run back: those that wait for the permits of it, above all.
	// A store may hand them out in the same action, by the rules of Store.Claim, and announce them to nobody else; or leave Next
	// alone, and announce them. The session is one of the partition of the run. With EffectNone it is ignored.
	Next *Claim
}

// MaxHoldBack is for how long a commit closes rates at most.
const MaxHoldBack = 24 * time.Hour

// Held returns for how long the commit closes rates.
func (c *Commit) Held() time.Duration { return max(min(c.HoldBack, MaxHoldBack), 0) }

// Exempt is the change that a commit makes to the exemption of a run. While a run is exempt,
// the end of the session that owns it does not count as one of its recoveries: its owner
// executes nothing of it, or other runs too, so that it need not be the cause. A claim makes
// runs exempt by Claim.Exempt, and their owner commits when it begins to execute one. The
// exemption ends when the run is given back.
type Exempt uint8

// The changes of the exemption.
const (
	ExemptUnchanged Exempt = 0
	ExemptOn        Exempt = 1
	ExemptOff       Exempt = 2
)

// After returns whether a run is exempt after a commit that leaves it owned.
func (e Exempt) After(was, progress bool) bool {
	return !progress && (e == ExemptOn || e == ExemptUnchanged && was)
}

// Committed is the answer to a commit.
type Committed struct {
	// N is the number of frames of the log after the commit.
	N uint64
	// Unread says that the inbox is not empty (only for a run that is owned under
	// the fence of the commit afterwards).
	Unread bool
	// Err is nil (the commit is durable, now or by an earlier try of the same
	// commit), ErrFenced, ErrUnread (park and finish: the inbox holds more than is
	// consumed; continue: it holds more of ScopeRun), a *ConflictError or a
	// *WorkflowIDMismatchError. Unless it is nil nothing was written by this
	// call. The same holds for a *DamagedError and a *TooLargeError; but if
	// Unknown is true for Err it is not known whether the commit was applied.
	Err error
	// Next is the answer to Commit.Next; empty: nothing was handed out. An earlier try of the commit may have handed out runs that
	// are not in it: they are the session's, which finds them by Store.Reconcile.
	Next Claimed
	// Sent are records of Send as Outbox would return them now: fresh ones that no earlier record of their pair is before. Whoever
	// has committed may deliver them at once, and reads the others, as a store need not return all of them, or any. They share
	// their bodies with the commit. An earlier try of the commit may have written records that are not in it.
	Sent []Outgoing
}
