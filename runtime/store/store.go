package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Store keeps runs. All methods are safe for concurrent use. An error for which [Unknown] returns
// true leaves open whether the operation was executed. The caller may then repeat any operation
// with the same arguments, except Claim and ClaimRun, whose outcome Reconcile returns.
//
// Create, Commit and Load take several requests. A store that can answer only some of them returns
// those answers; the answers to the others have an Err for which Unknown returns true, and the
// caller may repeat those requests alone. If the store can answer none of them, the call as a whole
// fails. A call with one request always fails as a whole: its answer never has such an Err.
//
// After Close every method fails with [ErrClosed].
type Store interface {
	// Clock returns the clock of all times of the store.
	Clock() Clock
	// Partitions returns the number of partitions, at least 1. A run belongs to the partition
	// Slot() % Partitions() of its ID.
	Partitions() int

	// Create stores new runs. Each request is judged separately; the results are in the order of
	// the requests, and the error concerns the whole call. A run and the items of its request are
	// stored together or not at all.
	Create(ctx context.Context, runs []Create) ([]Created, error)

	// OpenSession adds a lease. If the session exists, OpenSession renews its lease, or returns
	// ErrExpired if the session is being recovered. It returns an *InvalidError if a route has an
	// invalid name.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat renews the lease. ErrExpired means that the session has ended: the caller must
	// commit nothing more that was claimed under it. A lease that has expired is renewed if its
	// recovery has not begun.
	Heartbeat(ctx context.Context, partition int, session SessionID) (Heartbeat, error)
	// Reconcile returns the runs that the session owns, or ErrExpired. Like Claim and ClaimRun it
	// fails if the session is gone or being recovered, but not merely because its lease has
	// expired. Heartbeat returns only the number of these runs: listing them costs a read for each
	// and is needed only if the worker counts a different number.
	Reconcile(ctx context.Context, partition int, session SessionID) ([]Owned, error)
	// CloseSession removes the lease. Runs that the session still owns are recovered at once, like
	// those of a dead worker. It returns nil if there is no such session, because it was closed
	// before.
	CloseSession(ctx context.Context, partition int, session SessionID) error

	// Claim recovers runs of dead sessions, makes due runs ready, and makes up to Max blocked runs
	// of the routes ready that the session may try. Then it examines the first Max ready runs of
	// the routes: it assigns to the session those that it may try, and blocks the others with
	// status blocked. Rule B2 defines which runs a session may try. ErrExpired: the session has
	// ended.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// ClaimRun claims one run by its ID. It takes a run that is ready, parked or blocked, and
	// otherwise fails with ErrOwned, ErrRunNotFound, ErrNotClaimable or a *TerminalError. Unlike
	// Claim it recovers no runs, makes no runs ready, and ignores routes, rule B2 and Exempt.
	ClaimRun(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID) (ClaimedRun, error)
	// Due makes up to limit due runs ready and returns the next due time of the partition, zero if
	// there is none. Unlike a Claim with Max 0 it needs no session: a worker that is full or
	// between two sessions calls it on behalf of other workers.
	Due(ctx context.Context, partition, limit int) (next time.Time, err error)

	// Commit appends frames and carries out effects. Each commit is judged separately; the results
	// are in the order of the requests. The guards of a commit, in order: the run exists (otherwise
	// ErrFenced); if the frame is already the last of the log, the commit was applied and succeeds
	// without further checks; the fence (ErrFenced); the workflow ID; Prev and First, then Consume
	// (a *ConflictError); the inbox for park, finish and continue (ErrUnread); for continue, that
	// the run is the active run of its workflow ID and that the new run does not exist (a
	// *ConflictError).
	Commit(ctx context.Context, commits []Commit) ([]Committed, error)
	// Release gives a run back unchanged and makes it ready under a new fence. ErrFenced: the run
	// is not owned under this fence. Unlike a commit with EffectYield it names no position in the
	// log, so a worker that has not read the log can give the run back.
	Release(ctx context.Context, run event.RunID, fence Fence) error

	// Deliver puts an item into the inbox of a run and returns the run that accepted it. An item of
	// ScopeRun goes to the named run, an item of ScopeChain to the last run of its chain, however
	// often the chain has continued. Errors, in order: ErrStale, ErrRunNotFound, a *TerminalError,
	// ErrLater; they concern the receiving run. An item that the chain has accepted before is
	// accepted again, even if that run has ended. If the last run of the chain is gone, the result
	// is that of the named run, which has continued.
	Deliver(ctx context.Context, d Deliver) (event.RunID, error)

	// Outbox holds the records that commits send to other runs.
	Outbox
	// Streams are written by runs and read by any client.
	Streams

	// Load reads runs; the results are in the order of the requests. For a run that does not exist
	// Loaded.Err is ErrRunNotFound.
	Load(ctx context.Context, runs []Load) ([]Loaded, error)
	// Resolve returns the active run of a workflow ID, otherwise the one that ended last, while it
	// is kept. ErrRunNotFound: there is none.
	Resolve(ctx context.Context, workflowID string) (event.RunID, error)

	// Wait blocks until there may be something to do for a worker, until the given time, or until
	// ctx ends, in which case it returns ctx.Err(). It is a hint: it may return too early, and the
	// announced work may be gone.
	Wait(ctx context.Context, w Wait) (Woken, error)
	// Watch blocks until the log of the run has more than n frames, or until
	// the run does not exist (ErrRunNotFound), or until ctx ends (ctx.Err()). If n is
	// UntilEnd it blocks until the run has ended, whatever its log has grown to. It is a
	// hint: it may return before that if something of the log was lost, and the caller looks.
	Watch(ctx context.Context, run event.RunID, n uint64) error

	// Close releases the resources of the store and ends blocked calls with ErrClosed. Closing
	// twice has no effect.
	Close() error
}

// QueueState is the queue state of a run. A run has exactly one.
type QueueState uint8

// Unused determines what happens to the permits of a run that parks without having begun anything
// with them.
type Unused uint8

// The values.
const (
	// UnusedNone: the permits were used. The run keeps them if it is Whole and otherwise gives them
	// back. The rates get nothing back.
	UnusedNone Unused = 0
	// UnusedBack: the run gives all of them back, and the rates of its limits get back what its
	// grant has taken.
	UnusedBack Unused = 1
	// UnusedInQueue is UnusedBack for a run that keeps its position in its limiter queue.
	UnusedInQueue Unused = 2
)

// The queue states.
const (
	StateReady   QueueState = 1 // waits for a worker to claim it
	StateOwned   QueueState = 2 // a session owns it
	StateParked  QueueState = 3 // waits for its due time or for an item
	StateBlocked QueueState = 4 // waits for a session that may try it
	StateQueued  QueueState = 5 // waits for the end of the run before it
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

// Route is a workflow on a queue. Workers serve routes.
type Route struct {
	Queue    string
	Workflow string
}

// Fence proves the right to write to a run.
type Fence struct {
	Epoch uint64
	Token event.Token
}

// SessionID identifies a session of a worker on one partition.
type SessionID string

// Create is a request for a new run.
type Create struct {
	// Run is the ID of the run. The client generates it before the first try and keeps it for
	// repetitions.
	Run event.RunID
	// WorkflowID is the user's name for the run; empty if there is none. At most one run of a
	// workflow ID is active.
	WorkflowID string
	Active     ActivePolicy
	Finished   FinishedPolicy
	// Cancel is the item that is delivered to the runs that Active cancels, even to one that is
	// closing; the store cannot construct it. A queued run keeps its position and ends when it
	// becomes the active run.
	Cancel Item

	Route    Route
	Priority int // higher is claimed first
	Tags     map[string]string
	Parent   event.RunID
	Root     event.RunID

	// Items are in the inbox of the run from its creation on; its chain has accepted them before
	// anything that Deliver brings. They wake no worker: a delayed or queued run holds them until
	// it is made ready. If the result is another run or an error, they were not accepted.
	// Create.Check defines their limits. In Commit.Continue they are ignored.
	Items []Item

	// CreatedBy is the outbox record of Parent that creates the run; empty if there is none. The
	// run is not purged before Confirm.
	CreatedBy event.ItemID
	// Deadline makes a late request harmless: past it the answer is ErrStale,
	// even if the run exists. Zero: none. The relay of an outbox sets it.
	Deadline time.Time

	// Frame is the first frame of the log, CommitID its ID, and Seq the number of its last event.
	Frame    []byte
	CommitID event.CommitID
	Seq      uint64

	// Status is the label for people until the first commit; empty means pending.
	Status event.Status

	// Delay parks the run for that duration from now, and At until that time. The later of the two
	// applies; a time in the past means now.
	Delay time.Duration
	At    time.Time

	// Retention is the duration for which the run is kept after its end; DefaultRetention if not
	// positive. Retention, Delay and At accept any value: times end with the year 9999 (see
	// event.Instant).
	Retention time.Duration

	// Uses are the limits of which the run holds permits while a session owns it, as MergeUses
	// returns them. A store that is not a Limiter refuses runs with Uses.
	Uses []Use
	// Whole makes the run hold its permits from its first claim to the end of its chain, and not
	// only while a session owns it.
	Whole bool

	// Gather makes the start share a run with other starts of its key; nil for a run of its own. In
	// Commit.Continue it is ignored.
	Collect *Collect

	// Fair is the fairness key of the run: among the ready runs of a route and a priority, each key
	// gets claims in proportion to its Share. If Fair is empty, runs are claimed in the order of
	// arrival. Share is 1 to MaxShare; 0 means 1. A store that is not a Limiter refuses a run with
	// a Fair.
	Fair  string
	Share int

	// RerunOf is the ended run of which this run is a rerun; empty if there is none. It must be in
	// the same partition. The action that creates this run, or finds that it was created before,
	// removes the old run from its failure group and sets its Rerun to this run. The last of
	// several reruns replaces the others.
	RerunOf event.RunID

	// Owner claims the run in the action that creates it; if nil, the run waits for a worker. A run
	// that would not be ready at once, because it is delayed or queued after an active run, is not
	// created and the error is ErrNotClaimable. If the session has expired, it is ErrExpired.
	Owner *Owner
}

// Gather makes starts of one key share a run. The first start creates the run, parked, under the ID
// of the start. Later starts join it until a session owns it for the first time or an urgent item
// requests its end; their result is that run, with New false. Each start has one item. Only an
// urgent item wakes a run that collects starts. The store checks whether a start has joined a run
// before everything else except whether the start's own run exists, and remembers the answer for
// Horizon.
type Collect struct {
	// Key identifies the run that collects the starts; it may be any bytes, up to MaxName. It
	// determines the partition, like a workflow ID.
	Key string
	// Keep keeps the items of all starts, in order; otherwise only the item of the last start is
	// kept.
	Keep bool
	// Quiet is the duration after the last start, and Most the maximum duration after the first
	// start, at which the run is made ready; 0 means that the bound does not apply. A start that
	// arrives after that time, but before a session owns the run, joins it without delaying it.
	Quiet, Most time.Duration
	// Full makes the run ready, and closes it for further starts, once its inbox contains that many
	// items; 0 means any number. It requires Keep.
	Full int
}

// Due returns the time at which a run created at the given time is made ready if a start joins it
// now.
func (g *Collect) Due(created, now time.Time) time.Time {
	last, quiet := created.Add(g.Most), now.Add(g.Quiet)
	if g.Most <= 0 || g.Quiet > 0 && quiet.Before(last) {
		return quiet
	}
	return last
}

// Owner is a session that owns a run from its creation on. Creation and claim are one action, so
// that there is no moment at which only one of them is durable. The fence is epoch 1 with Token,
// which must be new for this request. A session that does not belong to the partition of the run
// counts as expired. The first frame may record that the run has begun, but nothing that needs an
// outbox record or a stream chunk, because a Create writes neither. The continuation of a run waits
// for a worker: an Owner in Commit.Continue is ignored.
type Owner struct {
	Session SessionID
	Token   event.Token
}

// Fence returns the fence under which the run is created.
func (o *Owner) Fence() Fence { return Fence{Epoch: 1, Token: o.Token} }

// ActivePolicy defines the result of a start whose workflow ID has an active run.
type ActivePolicy uint8

// The policies for an active run.
const (
	ActiveUse    ActivePolicy = 0 // return the active run
	ActiveFail   ActivePolicy = 1 // *ActiveError
	ActiveCancel ActivePolicy = 2 // cancel it and all runs queued after it; the new run starts when they have ended
	ActiveQueue  ActivePolicy = 3 // the new run starts when it and all runs queued after it have ended
	ActiveLatest ActivePolicy = 4 // as ActiveQueue, but all runs queued after it are canceled
)

// Lines reports whether a start is queued until the active run has ended.
func (p ActivePolicy) Lines() bool { return p >= ActiveCancel && p <= ActiveLatest }

// FinishedPolicy defines the result of a start whose workflow ID has a finished run and no active
// run.
type FinishedPolicy uint8

// The policies for a finished run.
const (
	FinishedAllow        FinishedPolicy = 0 // start
	FinishedAllowFailure FinishedPolicy = 1 // start if it did not complete, *FinishedError otherwise
	FinishedReject       FinishedPolicy = 2 // *FinishedError
)

// Created is the result of a Create.
type Created struct {
	// Run is the new run, the active run under ActiveUse, or the run that the start has joined.
	Run event.RunID
	// New reports that Run is the run of the request, created by this or an earlier try.
	New bool
	// Fence is the fence under which the Owner of the request owns the run. It is zero if the Owner
	// does not own it: no Owner was given, or an earlier try created the run and it was committed
	// or lost since.
	Fence Fence
	// Waits is the time since which the run waits for its permits, see ClaimedRun.Waited; zero if
	// it does not wait.
	Waits time.Time
	// Err is nil, an *InvalidError (see Check), an *ActiveError, a *FinishedError, ErrStale,
	// ErrNotClaimable or ErrExpired; the last two occur only for a request with an Owner. For a run
	// with uses or a fairness key it may also be ErrNoLimits, a *LimitError, a *StartRefusedError,
	// or, with an Owner, ErrNotClaimable if the run must wait. It may also be a *DamagedError, a
	// *TooLargeError, or an error for which Unknown returns true.
	Err error
}

// Session is a request to open a session.
type Session struct {
	Partition   int
	ID          SessionID
	Worker      string // for people: host, pid
	TTL         time.Duration
	Routes      []Route // the served routes: see Heartbeat.Unserved and Roster
	Fingerprint string  // of the code the worker runs
}

// Heartbeat is the result of a heartbeat.
type Heartbeat struct {
	Owned  int           // number of runs that the session owns
	Unread []event.RunID // owned runs with items in their inbox
	Next   time.Time     // next due time of the partition; zero: none
	// Outbox is the earliest due time of a record in the partition's outbox; zero if there is none.
	// A time in the past means that a record is due now.
	Outbox time.Time
	// Unserved contains ready runs of routes that no session with a valid lease serves: up to
	// UnservedMost of them, rotating, so that each is reported eventually. A partition reports some to
	// at most one heartbeat in each CountedPause, regardless of the session. The cost grows with
	// the number of routes and sessions, not with the number of runs.
	Unserved []event.RunID
	// Restored contains runs that no session would have found, because the store had lost their
	// index entries, and that the heartbeat has restored. The audit trail of each has the reason. A
	// store that cannot lose index entries restores none.
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
	Token     event.Token // fresh for each call
	Routes    []Route
	Max       int // maximum number of runs; 0 only recovers and makes due runs ready
	// Exempt is the number of recoveries from which on a claimed run is exempt; 0 means that none
	// is. See Exempt.
	Exempt int
	// Room is the worker's free capacity in its local limits. The claim skips a run that uses more
	// than the free capacity of such a limit, and all later runs that use the same limit, unless
	// the run's weight exceeds Most. A limit that is not listed bounds nothing.
	FreeCapacity []FreeCapacity
	// Hinted reports that the reason for the claim is Woken.Hinted. A store may then return ready
	// runs only, and none if other sessions have taken the wakes of the routes. It then recovers
	// nothing, and Claimed.Next may be in the past. A caller that does not receive the result of
	// such a claim must claim again without Hinted.
	Hinted bool
}

// Claimed is the result of a claim.
type Claimed struct {
	Runs []ClaimedRun
	Next time.Time // next due time of the partition; zero: none
	// Passed contains the first runs that were skipped for lack of Room. Their routes are woken for
	// other workers; this worker claims again when it has more capacity.
	Skipped []SkippedRun
}

// ClaimedRun is a run that now belongs to the session.
type ClaimedRun struct {
	Run        event.RunID
	WorkflowID string
	Route      Route
	Fence      Fence
	Recoveries int            // since the last progress
	N          uint64         // frames
	Seq        uint64         // last event
	Last       event.CommitID // last frame
	Bytes      int            // of all frames, if the store knows; else 0
	Unread     bool           // the inbox is not empty
	// LeftQueue reports that the run holds none of its permits and must do nothing but end.
	LeftQueue bool
	// Waited is the time since which the run had waited for the permits that it now holds; zero if
	// its limits had free capacity when it arrived, or if it uses none.
	Waited time.Time
	// Uses are the uses of the run if some are local, otherwise nil.
	Uses []Use
	// Group is the failure group of the run; empty if there is none. See [FailureGroup].
	Group string
	// Loaded is the result that Load would return now for the whole log and the inbox. Its Record
	// is empty, because a worker needs only the fields above. A store sets it if that costs less
	// than another request. If it is nil, call Load.
	Loaded *Loaded
}

// Scope defines whether an item is for one run or for its chain.
type Scope uint8

// The scopes.
const (
	ScopeChain Scope = 0 // follows the run to what it continued as
	ScopeRun   Scope = 1 // only this run
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
	// Deadline makes a late request harmless: past it the answer is ErrStale.
	// Zero: none.
	Deadline time.Time
	// Keep makes the store remember the item until Confirm, and not only for a day, because it
	// comes from an outbox. It has no effect on an item that was accepted before.
	Keep bool
	// Urgent lets a run that waits for permits be claimed without them, only to end, because the
	// item requests its end. See ClaimedRun.LeftQueue.
	Urgent bool
}

// Load is a request to read a run.
type Load struct {
	Run event.RunID
	// After is the number of frames to skip.
	After uint64
	// Limit is the greatest number of frames to return; 0: all, negative: none.
	Limit int
	// Inbox requests the items of the inbox.
	Inbox bool
	// Bytes is the approximate size of the log; 0 if not known. A store may read runs with long
	// logs separately.
	Bytes int
}

// Loaded is a run as it is stored.
type Loaded struct {
	Record Record
	Frames [][]byte // from After+1
	Inbox  []Item
	// Err is nil, ErrRunNotFound, a *DamagedError, or one for which Unknown is true.
	Err error
}

// Record is the metadata that a store keeps beside the log of a run. All of it except the fence can
// be rebuilt from the log.
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
	Exempt     bool // see Exempt
	Closing    bool
	Next       event.RunID  // the run that continues it
	CreatedBy  event.ItemID // empty once it is confirmed
	CreatedAt  time.Time
	EndedAt    time.Time
	Retention  time.Duration // always positive: the default is filled in
	// Group is the failure group of the run; empty if there is none. See [FailureGroup]. The log does
	// not record whether a run is blocked: a repair keeps Group or clears it.
	Group string

	// Rerun is the last rerun of this ended run; empty if there is none. See Create.RerunOf. The
	// log of the rerun records it.
	Rerun event.RunID

	// Uses and Whole are those of Create. Permits reports that the run holds its permits: it is
	// owned, or it is Whole and has been owned. LeftQueue is that of ClaimedRun. A ready run with
	// uses that has neither Permits nor LeftQueue waits for permits.
	Uses      []Use
	Whole     bool
	Permits   bool
	LeftQueue bool
	// WaitsSince is the time in ClaimedRun.Waited; it is also set while the run still waits. The
	// log does not contain it: a repair keeps it or clears it.
	WaitsSince time.Time

	// Fair and Share are those of Create. With a Fair the Share is at least 1.
	Fair  string
	Share int
}

// InFairKey reports whether the run is ready and has a position by its fairness key.
func (r *Record) InFairKey() bool {
	return r.QueueState == StateReady && r.Fair != "" && !r.LeftQueue
}

// Waits reports whether the run waits for permits.
func (r *Record) Waits() bool {
	return r.QueueState == StateReady && len(r.Uses) > 0 && !r.Permits && !r.LeftQueue
}

// Clock is the source of a store's time. A test may provide its own.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// AfterFunc calls f in its own goroutine once d has passed. stop reports
	// whether it prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock is the clock of the machine.
var SystemClock Clock = systemClock{}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// CountedPause returns how much of a pause between two signs of life in a partition counts, at
// most, as time in which the store was up. ttl is the TTL of the session that gives the second
// sign.
func CountedPause(ttl time.Duration) time.Duration {
	return max(min(5*time.Second, ttl/4), time.Millisecond)
}
