package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Store keeps runs. All methods are safe for concurrent use. If [Unknown] returns true for an
// error, it is unknown whether the operation was executed. The caller may then repeat any operation
// with the same arguments, except Claim and ClaimRun; Reconcile returns the result of these.
//
// Create, Commit and Load take several requests. If a store can answer only some of them, it
// returns these answers. The other answers have an Err for which Unknown returns true, and the
// caller may repeat the requests of these answers. If the store can answer none of the requests,
// the whole call fails. Therefore the answer to a single request never has such an Err.
//
// After Close every method returns [ErrClosed].
type Store interface {
	// Clock returns the clock that determines all times of the store.
	Clock() Clock
	// Partitions returns the number of partitions, at least 1. A run belongs to the partition
	// Slot() % Partitions() of its ID.
	Partitions() int

	// Create stores new runs. Each request is independent of the others. The results are in the
	// order of the requests, and the error concerns the whole call. A run and its items are stored
	// in one action.
	Create(ctx context.Context, runs []Create) ([]Created, error)

	// OpenSession adds a lease. If the session exists, OpenSession renews its lease and replaces its
	// routes, or returns ErrExpired if the session is being recovered. It returns an *InvalidError if the name of a
	// route is invalid.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat renews the lease of a session. If the lease has expired, Heartbeat renews it unless
	// the recovery of the session has begun. It returns ErrExpired if the session has ended. The
	// caller must then commit nothing to runs that it claimed under this session.
	Heartbeat(ctx context.Context, partition int, session SessionID) (Heartbeat, error)
	// Reconcile returns the runs that the session owns. Like Claim and ClaimRun, it returns
	// ErrExpired if the session does not exist or is being recovered. An expired lease alone is not
	// an error. Heartbeat returns only the number of these runs, because a list requires a read of
	// each run. A worker needs the list only if it counts a different number.
	Reconcile(ctx context.Context, partition int, session SessionID) ([]Owned, error)
	// CloseSession removes the lease. It recovers the runs that the session owns at once, like the
	// runs of a dead worker. It returns nil if the session does not exist, because it may have been
	// closed before.
	CloseSession(ctx context.Context, partition int, session SessionID) error

	// Claim recovers runs of dead sessions and makes due runs ready. It makes at most Max blocked
	// runs of the routes ready, if the session may try them. Then it examines the first Max ready
	// runs of the routes. It assigns to the session the runs that the session may try, and blocks
	// the others. Rule B2 defines which runs a session may try. Claim returns ErrExpired if the
	// session has ended.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// ClaimRun claims the run with the given ID if it is ready, parked or blocked. Otherwise it
	// returns ErrOwned, ErrRunNotFound, ErrNotClaimable or a *TerminalError. Unlike Claim, it
	// recovers no runs and makes no runs ready, and it ignores routes, rule B2 and Exempt. A parked or
	// blocked run that uses limits is claimed with its permits if these are free and no other run
	// waits for them.
	ClaimRun(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID) (ClaimedRun, error)
	// Due makes at most limit due runs ready. It returns the next due time of the partition, or the
	// zero time if there is none. Unlike a Claim with Max 0 it needs no session. A worker without
	// free capacity, or between two sessions, calls it on behalf of other workers.
	Due(ctx context.Context, partition, limit int) (next time.Time, err error)

	// Commit appends frames and applies effects. Each commit is independent of the others, and the
	// results are in the order of the requests. A store checks a commit in the following order. If
	// the run does not exist, the result is ErrFenced. If the frame is already the last frame of
	// the log, the commit was applied before and succeeds. Then the store checks the fence
	// (ErrFenced), the workflow ID, Prev and First (*ConflictError), and Consume (*ConflictError).
	// For park, finish and continue it checks the inbox (ErrUnread). For continue, the run must be
	// the active run of its workflow ID, and the new run must not exist (*ConflictError).
	Commit(ctx context.Context, commits []Commit) ([]Committed, error)
	// Release makes an owned run ready under a new fence, without another change. It returns
	// ErrFenced if the run is not owned under this fence. Unlike a commit with EffectYield, it
	// needs no position in the log, so a worker that has not read the log can give the run back.
	Release(ctx context.Context, run event.RunID, fence Fence) error

	// Deliver puts an item into the inbox of a run and returns the run that accepted it. An item of
	// ScopeRun goes to the given run. An item of ScopeChain goes to the last run of its chain,
	// however often the chain has continued. An item that the chain has accepted before is accepted
	// again, even if the last run has ended. If the last run of the chain was removed, Deliver
	// applies to the given run, which has continued. Errors, in the order of the checks, are
	// ErrStale, ErrRunNotFound, a *TerminalError and ErrLater. They concern the receiving run.
	Deliver(ctx context.Context, d Deliver) (event.RunID, error)

	// Outbox delivers the records that commits send to other runs.
	Outbox
	// Streams contains data that runs write and any client can read.
	Streams

	// Load reads runs. The results are in the order of the requests. If a run does not exist, its
	// Loaded.Err is ErrRunNotFound. The record and the inbox of a run are read at the same moment, so
	// the inbox contains no item that one of the first Record.N frames consumes.
	Load(ctx context.Context, runs []Load) ([]Loaded, error)
	// Resolve returns the active run of a workflow ID. If there is none, it returns the run of this
	// workflow ID that ended last, unless that run was removed. Otherwise it returns
	// ErrRunNotFound.
	Resolve(ctx context.Context, workflowID string) (event.RunID, error)

	// Wait blocks until a worker may have something to do, until the time in w, or until ctx ends.
	// If ctx has ended, it returns ctx.Err(). The result is a hint: Wait may return too early, and
	// another worker may have taken the reported work.
	Wait(ctx context.Context, w Wait) (Woken, error)
	// Watch blocks until the log of the run has more than n frames. If n is UntilEnd, it blocks
	// until the run has ended, regardless of its log. It returns ErrRunNotFound if the run does not
	// exist, and ctx.Err() if ctx ends. The result is a hint: Watch may return early if a part of
	// the log was lost, so the caller must read the run.
	Watch(ctx context.Context, run event.RunID, n uint64) error

	// Close releases the resources of the store and ends blocked calls with ErrClosed. A second
	// call has no effect.
	Close() error
}

// QueueState determines whether a run is ready, owned, waiting or ended. Each run has exactly one
// queue state.
type QueueState uint8

// Unused determines what happens to the permits of a run that parks without having begun anything
// with them.
type Unused uint8

// Values of Unused.
const (
	// UnusedNone means that the permits were used. A run with Whole keeps them, and any other run
	// gives them back. The rates of its limits do not change.
	UnusedNone Unused = 0
	// UnusedBack means that the run gives all permits back, and that the rates of its limits get
	// back the weight that the grant has taken.
	UnusedBack Unused = 1
	// UnusedInQueue is like UnusedBack, but the run keeps its position in its limiter queue.
	UnusedInQueue Unused = 2
)

// Queue states of a run.
const (
	StateReady   QueueState = 1 // the run waits for a worker to claim it
	StateOwned   QueueState = 2 // a session owns the run
	StateParked  QueueState = 3 // the run waits for its due time or for an item
	StateBlocked QueueState = 4 // the run waits for a session that may try it
	StateQueued  QueueState = 5 // the run waits for the end of the preceding run of its workflow ID
	StateEnded   QueueState = 6
)

// String returns the name of the queue state.
func (p QueueState) String() string {
	switch p {
	case StateReady:
		return "ready"
	case StateOwned:
		return "owned"
	case StateParked:
		return "parked"
	case StateBlocked:
		return "blocked"
	case StateQueued:
		return "queued"
	case StateEnded:
		return "ended"
	}
	return "nowhere"
}

// Route is a workflow on a queue. Each worker serves a set of routes.
type Route struct {
	Queue    string
	Workflow string
}

// Fence is the right to write to a run.
type Fence struct {
	Epoch uint64
	Token event.Token
}

// SessionID identifies a session of a worker on one partition.
type SessionID string

// Create is a request for a new run.
type Create struct {
	// Run is the ID of the run. The client generates it before its first request and uses the same
	// ID in repeated requests.
	Run event.RunID
	// WorkflowID is the name that the user has given the run. It is empty if there is none. At most
	// one run of a workflow ID is active.
	WorkflowID string
	Active     ActivePolicy
	Finished   FinishedPolicy
	// Cancel is the item that a start with a canceling Active policy delivers to the runs that it
	// cancels, even to a closing run. A store cannot construct this item itself. A queued run that
	// is canceled keeps its position and ends when it becomes the active run.
	Cancel Item

	Route    Route
	Priority int // runs with a higher priority are claimed first
	Tags     map[string]string
	Parent   event.RunID
	Root     event.RunID

	// Items are the first items of the inbox of the run. Its chain has accepted them before any
	// item of Deliver. They wake no worker: a delayed or queued run keeps them until it is made
	// ready. If the result is an error or another run, the items were not accepted. Create.Check
	// defines their limits. Commit.Continue ignores them.
	Items []Item

	// CreatedBy is the outbox record of Parent that creates the run. It is empty if there is none.
	// The run is not purged before Confirm.
	CreatedBy event.ItemID
	// Deadline is the time after which the store refuses the request with ErrStale, even if the run
	// exists. This makes a delayed request harmless. The zero time means no deadline. The relay of
	// an outbox sets it.
	Deadline time.Time

	// Frame is the first frame of the log, CommitID is the ID of the frame, and Seq is the number
	// of its last event.
	Frame    []byte
	CommitID event.CommitID
	Seq      uint64

	// Status is the status for display until the first commit. Empty means pending.
	Status event.Status

	// Delay parks the run for this duration, and At parks it until this time. The later of the two
	// applies. A time in the past means now.
	Delay time.Duration
	At    time.Time

	// Retention is the duration for which the run is kept after its end. If it is not positive,
	// DefaultRetention is used. Retention, Delay and At accept any value, because times are limited
	// to the year 9999: see event.Instant.
	Retention time.Duration

	// Uses contains the limits of which the run holds permits while a session owns it, as returned
	// by MergeUses. A store that is not a Limiter refuses runs with Uses.
	Uses []Use
	// Whole makes the run hold its permits from its first claim until the end of its chain, even
	// while no session owns it.
	Whole bool

	// Collect makes the start share a run with other starts of the same key. It is nil for a start
	// with its own run. Commit.Continue ignores it.
	Collect *Collect

	// Fair is the fairness key of the run. Among the ready runs of a route and a priority, the
	// claims of each key are proportional to its Share. Runs without a fairness key are claimed in
	// the order of arrival. Share is 1 to MaxShare, and 0 means 1. A store that is not a Limiter
	// refuses a run with a fairness key.
	Fair  string
	Share int

	// RerunOf is the ended run of which this run is a rerun. It is empty if there is none. The
	// ended run must be in the same partition. The Create removes it from its failure group and
	// sets its Rerun to this run, even if this run was created before. If a run has several reruns,
	// Rerun is the last one.
	RerunOf event.RunID

	// Owner makes the session the owner of the new run in the action that creates it. If Owner is
	// nil, the run waits for a worker. If the run would not be ready at once, because it is delayed
	// or queued after an active run, it is not created and the error is ErrNotClaimable. If the
	// session has expired, the error is ErrExpired.
	Owner *Owner
}

// Collect makes starts with the same key share a run. The first start creates the run, which is
// parked and has the ID of the start. A later start joins it, unless a session has owned the run or
// an urgent item has requested its end. The result of a joined start is the collecting run, with
// New false. Each start has one item. Only an urgent item wakes a collecting run. The store first
// checks whether the run of the start itself exists, and then whether the start has joined a run.
// It remembers a joined start for Horizon.
type Collect struct {
	// Key identifies the collecting run. It may contain any bytes, up to MaxName. Like a workflow
	// ID, it determines the partition.
	Key string
	// Keep makes the run keep the items of all starts, in order. Without Keep, the run has only the
	// item of the last start.
	Keep bool
	// Quiet is the time after the last start, and Most the time after the first start, at which the
	// run is made ready. The earlier of the two applies; a value of 0 does not apply. A start that
	// arrives after the run was made ready, but before a session owns it, joins the run without
	// delaying it.
	Quiet, Most time.Duration
	// Full is the number of items at which the run becomes ready and accepts no further starts. 0
	// means no maximum. It requires Keep.
	Full int
}

// Due returns the time at which a collecting run is made ready if a start joins it at the time now.
// created is the time of creation of the run.
func (g *Collect) Due(created, now time.Time) time.Time {
	last, quiet := created.Add(g.Most), now.Add(g.Quiet)
	if g.Most <= 0 || g.Quiet > 0 && quiet.Before(last) {
		return quiet
	}
	return last
}

// Owner is a session that owns a run from its creation. Creation and claim are one action, so it is
// impossible that only one of them is durable. The fence has epoch 1 and Token, which must be new
// for this request. A session of another partition counts as expired. The first frame may record
// that the run has begun. It must not contain anything that needs an outbox record or a stream
// chunk, because Create writes neither. Commit.Continue ignores Owner, so the continuation of a run
// waits for a worker.
type Owner struct {
	Session SessionID
	Token   event.Token
}

// Fence returns the fence with which the run is created.
func (o *Owner) Fence() Fence { return Fence{Epoch: 1, Token: o.Token} }

// ActivePolicy determines the result of a start whose workflow ID has an active run.
type ActivePolicy uint8

// Policies for an active run.
const (
	ActiveUse    ActivePolicy = 0 // return the active run
	ActiveFail   ActivePolicy = 1 // return an *ActiveError
	ActiveCancel ActivePolicy = 2 // cancel the active run and all runs queued after it; the new run starts after their ends
	ActiveQueue  ActivePolicy = 3 // start the new run after the end of the active run and all runs queued after it
	ActiveLatest ActivePolicy = 4 // like ActiveQueue, but cancel all runs queued after the active run
)

// Lines reports whether the policy makes a start wait until the active run has ended.
func (p ActivePolicy) Lines() bool { return p >= ActiveCancel && p <= ActiveLatest }

// FinishedPolicy determines the result of a start whose workflow ID has a finished run and no
// active run.
type FinishedPolicy uint8

// Policies for a finished run.
const (
	FinishedAllow        FinishedPolicy = 0 // start the new run
	FinishedAllowFailure FinishedPolicy = 1 // start the new run unless the finished run has completed; then return a *FinishedError
	FinishedReject       FinishedPolicy = 2 // return a *FinishedError
)

// Created is the result of a Create.
type Created struct {
	// Run is the new run, the active run under ActiveUse, or the run that the start has joined.
	Run event.RunID
	// New reports that Run is the run of the request, created by this or an earlier call.
	New bool
	// Fence is the fence under which the Owner of the request owns the run. It is zero if there is
	// no Owner. It is also zero if an earlier call created the run, and a commit or another session
	// has changed the run since then.
	Fence Fence
	// Waits is the time at which the run began to wait for its permits: see ClaimedRun.Waited. It
	// is zero if the run does not wait for permits.
	Waits time.Time
	// Err is nil or one of the following: an *InvalidError (see Check), an *ActiveError, a
	// *FinishedError or ErrStale. For a request with an Owner it may be ErrExpired or
	// ErrNotClaimable. For a run with uses or a fairness key it may be ErrNoLimits, a *LimitError
	// or a *StartRefusedError, or with an Owner ErrNotClaimable if the run must wait. It may also
	// be a *DamagedError, a *TooLargeError, or an error for which Unknown returns true.
	Err error
}

// Session is a request to open a session.
type Session struct {
	Partition   int
	ID          SessionID
	Worker      string // host and process ID, for display
	TTL         time.Duration
	Routes      []Route // served routes: see Heartbeat.Unserved and Roster
	Fingerprint string  // fingerprint of the code of the worker
}

// Heartbeat is the result of a heartbeat.
type Heartbeat struct {
	Owned  int           // number of runs that the session owns
	Unread []event.RunID // owned runs with unread items
	Next   time.Time     // next due time of the partition; the zero time means none
	// Outbox is the earliest due time of a record in the outbox of the partition. It is zero if
	// there is none, and in the past if a record is due.
	Outbox time.Time
	// Unserved contains at most UnservedMost ready runs of routes that no session with a valid
	// lease serves. Successive heartbeats report different runs, so that each run is reported
	// eventually. A partition reports such runs to at most one heartbeat in each CountedPause,
	// whichever session sends it. The cost depends on the number of routes and sessions, not on the
	// number of runs.
	Unserved []event.RunID
	// Restored contains runs that no session would have found, because the store had lost their
	// index entries. The heartbeat has restored the entries. The audit trail of each run contains
	// the reason. A store that cannot lose index entries restores none.
	Restored []event.RunID
}

// Owned is a run that a session owns.
type Owned struct {
	Run   event.RunID
	Fence Fence
}

// Claim is a request for runs.
type Claim struct {
	Partition int
	Session   SessionID
	Token     event.Token // must be new for each call
	Routes    []Route
	Max       int // maximum number of runs; 0 only recovers runs and makes due runs ready
	// Exempt is the number of recoveries from which a claimed run is exempt. 0 makes no run exempt.
	// See type Exempt.
	Exempt int
	// FreeCapacity is the free capacity of the worker in its local limits. If a run uses more of
	// such a limit than is free, the claim skips the run and all later runs that use the same
	// limit. It does not skip a run whose weight exceeds Most. A limit that is not listed has no
	// bound.
	FreeCapacity []FreeCapacity
	// Hinted reports that the reason for the claim is Woken.Hinted. A store may then return only
	// ready runs, or no runs if other sessions have taken the wakes of the routes. It recovers no
	// runs, and Claimed.Next may be in the past. If the caller does not receive the result of such
	// a claim, it must claim without Hinted.
	Hinted bool
}

// Claimed is the result of a claim.
type Claimed struct {
	Runs []ClaimedRun
	Next time.Time // next due time of the partition; the zero time means none
	// Skipped contains the first runs that were skipped because FreeCapacity was not sufficient.
	// The claim wakes other workers for their routes. This worker claims again when it has more
	// free capacity.
	Skipped []SkippedRun
}

// ClaimedRun is a run that the session owns after the claim.
type ClaimedRun struct {
	Run        event.RunID
	WorkflowID string
	Route      Route
	Fence      Fence
	Recoveries int            // number since the last progress
	N          uint64         // number of frames
	Seq        uint64         // number of the last event
	Last       event.CommitID // last frame of the log
	Bytes      int            // size of all frames in bytes; 0 if unknown
	Unread     bool           // whether the inbox contains items
	// LeftQueue reports that the run holds none of its permits. The run must end and must do
	// nothing else.
	LeftQueue bool
	// Waited is the time at which the run began to wait for the permits that it holds. It is zero
	// if the run uses no limits, or if its limits had free capacity when it arrived.
	Waited time.Time
	// Uses contains the uses of the run if any of them is local. Otherwise it is nil.
	Uses []Use
	// Group is the failure group of the run. It is empty if there is none. See [FailureGroup].
	Group string
	// Loaded is the result that Load would return for the whole log and the inbox, without the
	// Record, which a worker does not need. A store sets it if this is cheaper than another
	// request. If it is nil, the worker must call Load.
	Loaded *Loaded
}

// Scope determines whether an item is for one run or for its chain.
type Scope uint8

// Scopes of an item.
const (
	ScopeChain Scope = 0 // the item follows the chain to its last run
	ScopeRun   Scope = 1 // the item is for one run only
)

// Item is one entry of an inbox. Stores interpret only ID and Scope.
type Item struct {
	ID    event.ItemID
	Scope Scope
	Body  []byte
}

// Deliver is a request to put an item into an inbox.
type Deliver struct {
	Run  event.RunID
	Item Item
	// Deadline is the time after which the store refuses the request with ErrStale. This makes a
	// delayed request harmless. The zero time means no deadline.
	Deadline time.Time
	// Keep makes the store remember the item until Confirm, and not only for a day. It is set if
	// the item comes from an outbox. It has no effect on an item that was accepted before.
	Keep bool
	// Urgent reports that the item requests the end of the run. A run that waits for permits can
	// then be claimed without them, only to end. See ClaimedRun.LeftQueue.
	Urgent bool
}

// Load is a request to read a run.
type Load struct {
	Run event.RunID
	// After is the number of frames to skip at the beginning of the log.
	After uint64
	// Limit is the maximum number of frames to return. 0 means all frames, and a negative number
	// none.
	Limit int
	// Inbox makes the result include the items of the inbox.
	Inbox bool
	// Portion is the number of bytes of data from a [BlobStore] above which the result may end before
	// the end of the log, so that not all of them are in memory at once. 0 means no bound. See
	// [Loaded.Next].
	Portion int
	// Bytes is the approximate size of the log in bytes, or 0 if unknown. A store may read runs
	// with long logs separately.
	Bytes int
}

// LogPortion is the portion in which workers read logs with data from a [BlobStore].
const LogPortion = 32 << 20

// Loaded is a run as stored.
type Loaded struct {
	Record Record
	Frames [][]byte // frames from number After+1
	// Sizes contains the size of each frame in the store, in bytes. Nil means that these are the
	// sizes of Frames.
	Sizes []int
	// Next is the frame that follows Frames, in its stored form, if the result ends early because of
	// Load.Portion. It begins with an event for which [event.Type.External] is true. Inbox is empty.
	Next  []byte
	Inbox []Item
	// Err is nil, ErrRunNotFound, a *DamagedError, or an error for which Unknown returns true.
	Err error
	// Sealed is the reason why user data in Frames and Inbox are still sealed. It is nil if there are
	// none. Only a store with a codec sets it. Tools show such a run, and a worker does not execute it.
	Sealed error
}

// Record is the metadata of a run, which a store keeps in addition to the log. All fields except
// the fence can be rebuilt from the log.
type Record struct {
	Run        event.RunID
	Chain      event.RunID
	WorkflowID string
	Route      Route
	Priority   int
	Tags       map[string]string
	Parent     event.RunID
	Root       event.RunID
	QueueState QueueState
	Status     event.Status
	N          uint64
	Seq        uint64
	Last       event.CommitID
	Fence      Fence
	Owner      SessionID
	Due        time.Time
	Recoveries int
	Exempt     bool // see type Exempt
	Closing    bool
	Next       event.RunID  // run that continues this run
	CreatedBy  event.ItemID // outbox record that created the run; empty after Confirm
	CreatedAt  time.Time
	EndedAt    time.Time
	Retention  time.Duration // always positive, because DefaultRetention replaces 0
	// Group is the failure group of the run. It is empty if there is none. See [FailureGroup]. The
	// log does not record whether a run is blocked, so a repair keeps Group or clears it.
	Group string

	// Rerun is the last rerun of this ended run. It is empty if there is none. See Create.RerunOf.
	// The log of the rerun records it.
	Rerun event.RunID

	// Uses and Whole have the values of Create. Permits reports that the run holds its permits: it
	// is owned, or it is Whole and has been owned. LeftQueue has the meaning of
	// ClaimedRun.LeftQueue. A ready run with uses waits for permits unless Permits or LeftQueue is
	// set.
	Uses      []Use
	Whole     bool
	Permits   bool
	LeftQueue bool
	// WaitsSince is the time at which the run began to wait for permits. Unlike ClaimedRun.Waited,
	// it is also set while the run waits. The log does not contain it, so a repair keeps it or
	// clears it.
	WaitsSince time.Time

	// Fair and Share have the values of Create. With a fairness key, Share is at least 1.
	Fair  string
	Share int
}

// InFairKey reports whether the run is ready and its position depends on its fairness key.
func (r *Record) InFairKey() bool {
	return r.QueueState == StateReady && r.Fair != "" && !r.LeftQueue
}

// Waits reports whether the run waits for permits.
func (r *Record) Waits() bool {
	return r.QueueState == StateReady && len(r.Uses) > 0 && !r.Permits && !r.LeftQueue
}
