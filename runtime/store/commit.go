package store

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Effect is the change that a commit makes to a run in addition to appending a frame.
type Effect uint8

// The effects.
const (
	EffectNone   Effect = 0
	EffectPark   Effect = 1 // give the run back until Due, or until an item arrives
	EffectYield  Effect = 2 // give the run back as ready, after all others of its route
	EffectBlock  Effect = 3 // give the run back because the session's code cannot replay it
	EffectFinish Effect = 4 // end the run
	// EffectContinue ends the run and replaces it with Continue in one action: the new run is
	// ready, is the active run of the workflow ID, receives the rest of the inbox, and follows the
	// old run in its chain.
	EffectContinue Effect = 5
)

// Commit is a request for one frame and one effect. A commit without a frame carries out only the
// effect.
type Commit struct {
	Run        event.RunID
	WorkflowID string // must be the workflow ID of the run
	Fence      Fence
	Prev       event.CommitID // the last frame that the owner knows

	Frame    []byte // nil if there is none
	CommitID event.CommitID
	First    uint64 // first event of the frame
	Last     uint64 // last event of the frame

	// Consume is the number of items to remove from the front of the inbox; ConsumeLast is the ID
	// of the last of them.
	Consume     int
	ConsumeLast event.ItemID

	Effect Effect
	Due    time.Time    // for EffectPark; zero means no due time
	Status event.Status // label for people; unchanged if empty
	// Progress reports that the run has made progress: its recoveries are reset.
	Progress bool
	// Exempt changes whether a run that stays owned is exempt. Progress ends the exemption as well.
	Exempt Exempt
	// Send contains the records for the outbox in the order of their delivery. The frame contains
	// the events that cause them.
	Send []Send
	// Publish contains the changes of the streams of the chain, which are applied in order. Their
	// cause is in the frame or is a consumed item. A commit that publishes must have a frame or
	// consume an item, because a repetition is recognized by these.
	Publish []Publication
	// Continue is the new run of EffectContinue. Its Run has the slot of this run's partition and
	// its WorkflowID is that of this run. Its first frame contains the items that the code of this
	// run has not taken. Policies, Delay, At, CreatedBy and Deadline are ignored: the new run
	// starts at once. If Continue is nil, or belongs to another partition or workflow ID, the whole
	// call fails and writes nothing.
	Continue *Create
	// Closing makes Deliver return ErrLater until the run is committed or claimed again. It is used
	// when items keep arriving while the run tries to end. It applies only with EffectNone, to a
	// run that stays owned.
	Closing bool
	// HoldBack closes the rates of the limits that the run uses: nothing begins under them for this
	// duration, at most MaxHoldBack. After that, weights begin one after the other at the rate,
	// without a burst. A rate that is already closed for longer stays closed. HoldBack has no
	// effect if it is zero, if the run uses no limits, or if the limits have no rate. It requires a
	// frame, by which a repetition is recognized.
	HoldBack time.Duration
	// Unused determines what happens to the permits of a run that parks without having begun
	// anything with them. It requires EffectPark.
	Unused Unused
	// FailureGroup sets the failure group of the run. Nil leaves it unchanged; a FailureGroup without a group
	// removes it. Label returns the effect at the end of a run. See [FailureGroup].
	FailureGroup *FailureGroup
	// Next claims runs that become ready when this commit gives its run back, mainly runs that wait
	// for its permits. A store may claim them for the session in the same action, by the rules of
	// Store.Claim, without notifying other workers. Or it ignores Next and notifies workers of
	// these runs as usual. The session must belong to the partition of the run. Next is ignored
	// with EffectNone.
	Next *Claim
}

// MaxHoldBack is the longest duration for which a commit closes rates.
const MaxHoldBack = 24 * time.Hour

// Held returns the duration for which the commit closes rates.
func (c *Commit) Held() time.Duration { return max(min(c.HoldBack, MaxHoldBack), 0) }

// Exempt is the change that a commit makes to the exemption of a run. If the session that owns an
// exempt run ends, the run's recoveries do not increase: its owner executes nothing of it, or
// executes other runs as well, so the run need not be the cause. Claim.Exempt makes claimed runs
// exempt, and their owner commits ExemptOff when it begins to execute one. The exemption ends when
// the run is given back.
type Exempt uint8

// The changes of the exemption.
const (
	ExemptUnchanged Exempt = 0
	ExemptOn        Exempt = 1
	ExemptOff       Exempt = 2
)

// After reports whether a run that stays owned is exempt after a commit with this change.
func (e Exempt) After(was, progress bool) bool {
	return !progress && (e == ExemptOn || e == ExemptUnchanged && was)
}

// Committed is the result of a commit.
type Committed struct {
	// N is the number of frames in the log after the commit.
	N uint64
	// Unread reports that the inbox is not empty. It is set only if the run is still owned under
	// the fence of the commit.
	Unread bool
	// Err is nil if the commit is durable, by this or an earlier try of the same commit. Otherwise
	// it is ErrFenced, ErrUnread (for park and finish: the inbox contains more than the commit
	// consumes; for continue: it contains more items of ScopeRun), a *ConflictError, a
	// *WorkflowIDMismatchError, a *DamagedError or a *TooLargeError, and this call has written
	// nothing. If Unknown returns true for Err, it is not known whether the commit was applied.
	Err error
	// Next is the result of Commit.Next; it is empty if no run was claimed. An earlier try of the
	// commit may have claimed runs for the session that Next does not contain. Store.Reconcile
	// returns them.
	Next Claimed
	// Sent contains records of Commit.Send as Outbox would return them: fresh records that no
	// earlier record of their pair precedes. The caller may deliver them at once. It must read the
	// others from the outbox, because a store may return only some of the records, or none. The
	// records share their bodies with the commit. An earlier try of the commit may have written
	// records that Sent does not contain.
	Sent []Outgoing
}
