package store

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Effect is the change that a commit makes to a run in addition to appending a frame.
type Effect uint8

// Effects of a commit.
const (
	EffectNone   Effect = 0
	EffectPark   Effect = 1 // give the run back until Due or until an item arrives
	EffectYield  Effect = 2 // give the run back as the last ready run of its route
	EffectBlock  Effect = 3 // give the run back because the code of the session cannot replay it
	EffectFinish Effect = 4 // end the run
	// EffectContinue ends the run and replaces it by the run Continue in one action. The new run is
	// ready and becomes the active run of the workflow ID. It receives the unread items and follows
	// the old run in the chain.
	EffectContinue Effect = 5
)

// Commit is a request to append one frame and to apply one effect. A commit without a frame applies
// only the effect.
type Commit struct {
	Run        event.RunID
	WorkflowID string // workflow ID of the run
	Fence      Fence
	Prev       event.CommitID // last frame of the log that the owner has read or written

	Frame    []byte // nil to append none
	CommitID event.CommitID
	First    uint64 // number of the first event of the frame
	Last     uint64 // number of the last event of the frame

	// Consume is the number of items to remove from the front of the inbox. ConsumeLast is the ID
	// of the last of these items.
	Consume     int
	ConsumeLast event.ItemID

	Effect Effect
	Due    time.Time    // for EffectPark; the zero time means no due time
	Status event.Status // status for display; empty leaves it unchanged
	// Progress reports that the run has made progress. It resets the count of recoveries.
	Progress bool
	// Exempt changes the exemption of a run that stays owned. Progress ends the exemption as well.
	Exempt Exempt
	// Send contains the outbox records of the commit in the order of delivery. The frame contains
	// the events that cause them.
	Send []Send
	// Publish contains changes of the streams of the chain, in order. The frame or a consumed item
	// contains their cause. A commit with changes must have a frame or consume an item, because the
	// store uses these to detect a repeated commit.
	Publish []Publication
	// Continue is the new run for EffectContinue. Its ID must have the slot of the old run, and its
	// workflow ID must be equal. Its first frame contains the items that the code of the old run
	// has not taken. The new run starts at once: Policies, Delay, At, CreatedBy and Deadline are
	// ignored. If Continue is nil, or belongs to another partition or workflow ID, the whole call
	// fails and writes nothing.
	Continue *Create
	// Closing makes Deliver return ErrLater until the next commit or claim of the run. A worker
	// sets it if items keep arriving while the run tries to end. It requires EffectNone and a run
	// that stays owned.
	Closing bool
	// HoldBack closes the rates of the limits that the run uses for this duration, at most
	// MaxHoldBack. During this time no weight begins under these limits. After that, weights begin
	// at the rate without a burst. A rate that is closed for longer stays closed. HoldBack has no
	// effect if it is zero, if the run uses no limits, or if the limits have no rates. It requires
	// a frame, which the store uses to detect a repeated commit.
	HoldBack time.Duration
	// Unused determines what happens to permits of a parking run that has begun nothing with them.
	// It requires EffectPark.
	Unused Unused
	// FailureGroup sets the failure group of the run. Nil leaves the failure group unchanged, and a
	// value with an empty Group removes it. Method Label also takes the end of the run into
	// account. See [FailureGroup].
	FailureGroup *FailureGroup
	// Next claims runs that become ready because this commit gives the run back, mainly runs that
	// wait for its permits. The store may claim them for the session in the same action, by the
	// rules of Store.Claim, without notifying other workers. A store may also ignore Next and
	// notify workers of these runs. The session must belong to the partition of the run. Next is
	// ignored with EffectNone.
	Next *Claim
}

// MaxHoldBack is the maximum duration for which a commit closes rates.
const MaxHoldBack = 24 * time.Hour

// Held returns the duration for which the commit closes rates: HoldBack limited to the range from 0
// to MaxHoldBack.
func (c *Commit) Held() time.Duration { return max(min(c.HoldBack, MaxHoldBack), 0) }

// Exempt is the change of the exemption of a run. If the session that owns an exempt run ends, the
// recoveries of the run are not counted. The owner of an exempt run does not execute it, or
// executes other runs as well, so the run may not be the cause. Claim.Exempt makes the claimed runs
// exempt, and the owner commits ExemptOff when it begins to execute one of them. The exemption ends
// when the run is given back.
type Exempt uint8

// Changes of the exemption.
const (
	ExemptUnchanged Exempt = 0
	ExemptOn        Exempt = 1
	ExemptOff       Exempt = 2
)

// After reports whether a run that stays owned is exempt after a commit with change e. was reports
// whether it was exempt before, and progress whether the commit reports progress.
func (e Exempt) After(was, progress bool) bool {
	return !progress && (e == ExemptOn || e == ExemptUnchanged && was)
}

// Committed is the result of a commit.
type Committed struct {
	// N is the number of frames in the log after the commit.
	N uint64
	// Bytes is the size of the frame in the store. 0 means that it is the size of Commit.Frame.
	Bytes int
	// Unread reports whether the inbox is not empty. It is set only if the run is owned under the
	// fence of the commit afterwards.
	Unread bool
	// Err is nil if this call or an earlier call has stored the commit durably. Otherwise this call
	// has written nothing, and Err is one of the following: ErrFenced; ErrUnread; a *ConflictError,
	// a *WorkflowIDMismatchError, a *DamagedError or a *TooLargeError. ErrUnread means for park and
	// finish that the inbox contains more items than the commit consumes, and for continue that it
	// contains more items of ScopeRun. If Unknown returns true for Err, it is unknown whether the
	// commit was stored.
	Err error
	// Next is the result of Commit.Next. It is empty if no run was claimed. If the commit was
	// repeated, an earlier call may have claimed runs for the session that Next does not contain.
	// Store.Reconcile returns these runs.
	Next Claimed
	// Sent contains fresh records of Commit.Send, in the form in which Outbox returns them, that no
	// earlier record from the same sender to the same receiver precedes. The caller may deliver
	// them at once. It must read all other records from the outbox, because a store may return only
	// some records or none. The records share their bodies with the commit. If the commit was
	// repeated, an earlier call may have written records that Sent does not contain.
	Sent []Outgoing
}
