package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Store keeps runs. All methods are safe for concurrent use. An error that is
// none of this package's means that it is not known whether the operation was
// executed; every operation may then be repeated with the same arguments, but
// for Claim and ClaimRun, whose outcome Reconcile tells. [Unknown] tells such errors.
//
// Create, Commit and Load take many requests. A store that can answer some of them and not
// others does so: the answers to the others have an Err for which Unknown is true, and these
// requests may be repeated by themselves. If it answers none of them the call fails as a
// whole. So may a call of one request: its answer never has such an Err.
//
// After Close every method fails with [ErrClosed].
type Store interface {
	// Clock returns the clock by which all times of the store are read.
	Clock() Clock
	// Partitions returns how many partitions the store has, at least 1. A run
	// belongs to the partition Slot() % Partitions() of its id.
	Partitions() int

	// Create stores new runs, each judged by itself: the results are in the
	// order of the requests, and the error concerns the call as a whole. A run and the
	// items that it is created with are there together, or neither is.
	Create(ctx context.Context, runs []Create) ([]Created, error)

	// OpenSession adds a lease. Sent again it renews the lease, unless the session is
	// being recovered: ErrExpired. A route whose name is none is refused with an
	// *InvalidError.
	OpenSession(ctx context.Context, s Session) error
	// Heartbeat renews the lease. ErrExpired means that the session is over:
	// nothing that was claimed under it may be committed any more. A lease that
	// has expired, but whose recovery has not begun, is renewed.
	Heartbeat(ctx context.Context, partition int, session SessionID) (Heartbeat, error)
	// Reconcile returns the runs that the session owns, or ErrExpired. Like
	// Claim and ClaimRun it asks whether the session is being recovered or gone,
	// not whether its lease is past. Heartbeat tells only how many there are: to name
	// them costs a read for each, and is needed only when the worker counts others.
	Reconcile(ctx context.Context, partition int, session SessionID) ([]Owned, error)
	// CloseSession removes the lease. Runs that the session still owns are
	// recovered like those of a dead worker, but at once. A session that is not
	// there has been closed before: nil.
	CloseSession(ctx context.Context, partition int, session SessionID) error

	// Claim recovers runs of dead sessions, makes due runs ready, makes
	// up to Max blocked runs of the routes ready that the session may try, and looks at
	// the first Max ready runs of the routes: those that it may try it hands to the
	// session, the others it blocks, with status blocked. Rule B2 says which a session
	// may try. ErrExpired: the session is over.
	Claim(ctx context.Context, c Claim) (Claimed, error)
	// ClaimRun is Claim for one named run. It takes a run that is ready, parked
	// or blocked, and fails with ErrOwned, ErrRunNotFound, ErrNotClaimable or a
	// *TerminalError otherwise. Nothing else of Claim applies to it: it recovers nobody,
	// makes nothing ready, and asks neither for routes nor for rule B2 nor for Exempt.
	ClaimRun(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID) (ClaimedRun, error)
	// Due makes up to limit runs ready whose time has come and returns the next
	// due time of the partition, zero if there is none. Unlike a Claim of nothing it needs
	// no session: a worker that is full, or between two sessions, calls it for others.
	Due(ctx context.Context, partition, limit int) (next time.Time, err error)

	// Commit appends frames and carries out effects, each judged by itself: the
	// results are in the order of the requests. The guards of one commit, in
	// their order: the run exists (else ErrFenced); the frame is the last of the
	// log already (then it is applied, and nothing more is asked); the fence
	// (ErrFenced); the workflow id; Prev and First, then Consume (a
	// *ConflictError); the inbox for park, finish and continue (ErrUnread); for
	// continue, that the run is the active one of its workflow id, and that the
	// new run does not exist (a *ConflictError).
	Commit(ctx context.Context, commits []Commit) ([]Committed, error)
	// Release gives a run back unchanged: it is made ready under a new fence.
	// ErrFenced: the run is not owned under this fence. Unlike a commit that yields it
	// names no position: a worker that has not read the log can give the run back.
	Release(ctx context.Context, run event.RunID, fence Fence) error

	// Deliver puts an item into the inbox of a run. It returns the run that
	// accepted it: an item of ScopeRun goes to the run named, one of ScopeChain to
	// the last run of its chain, however often that has continued. Errors, in
	// their order: ErrStale, ErrRunNotFound, a *TerminalError, ErrLater; they are
	// about the run to which it goes. An item that the chain has accepted before is
	// accepted again, even if that run has ended. If the last run of the chain
	// is gone, the run named, which has continued, answers for it.
	Deliver(ctx context.Context, d Deliver) (event.RunID, error)

	// Outbox holds the records that commits send to other runs.
	Outbox
	// Streams are written by runs and read by anyone.
	Streams

	// Load reads runs; the results are in the order of the requests. A run that
	// does not exist has Loaded.Err == ErrRunNotFound.
	Load(ctx context.Context, runs []Load) ([]Loaded, error)
	// Resolve returns the active run of a workflow id, else the one that ended
	// last, as long as that is kept. ErrRunNotFound: there is none.
	Resolve(ctx context.Context, workflowID string) (event.RunID, error)

	// Wait blocks until there may be something to do for a worker, until the
	// given time, or until ctx ends (then it returns ctx.Err()). It is a hint:
	// it may return too early, and what it announces may be gone.
	Wait(ctx context.Context, w Wait) (Woken, error)
	// Watch blocks until the log of the run has more than n frames, or until
	// the run does not exist (ErrRunNotFound), or until ctx ends (ctx.Err()). If n is
	// UntilEnd it blocks until the run has ended, whatever its log has grown to. It is a
	// hint: it may return before that if something of the log was lost, and the caller looks.
	Watch(ctx context.Context, run event.RunID, n uint64) error

	// Close releases what the store holds and ends blocked calls with
	// ErrClosed. Closing twice is harmless.
	Close() error
}

// QueueState is the queue state of a run. A run is in exactly one.
type QueueState uint8

// Unused is what becomes of the permits of a run that parks and has begun nothing with them.
type Unused uint8

// The values.
const (
	// UnusedNone: they were used. The run keeps them if it is Whole, else gives them back; what a rate
	// has let begin has begun.
	UnusedNone Unused = 0
	// UnusedBack: it gives all of them back, and the rates of its limits get back what its grant has taken.
	UnusedBack Unused = 1
	// UnusedInLine is UnusedBack of a run that keeps its place among those that wait for permits.
	UnusedInLine Unused = 2
)

// The queue states.
const (
	StateReady   QueueState = 1 // waits for a worker
	StateOwned   QueueState = 2 // a session works on it
	StateParked  QueueState = 3 // waits for its due time or for an item
	StateBlocked QueueState = 4 // waits for a session that may try it
	StateQueued  QueueState = 5 // waits for the end of the run before it
	StateEnded   QueueState = 6
)

// String returns its name.
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

// Route is a workflow on a queue: workers serve routes.
type Route struct {
	Queue    string
	Workflow string
}

// Fence proves the right to write to a run.
type Fence struct {
	Epoch uint64
	Token event.Token
}

// SessionID names one session of a worker on one partition.
type SessionID string

// Create asks for a new run.
type Create struct {
	// Run is made by the client before the first try and kept for repetitions.
	Run event.RunID
	// WorkflowID is the user's name for the run; empty: none. At most one run
	// of a workflow id is active.
	WorkflowID string
	Active     ActivePolicy
	Finished   FinishedPolicy
	// Cancel is delivered to the runs that Active cancels, even to one that is closing; the
	// store does not know how to make it. One that waits in line keeps its place, and ends
	// when its turn comes.
	Cancel Item

	Route    Route
	Priority int // higher is claimed first
	Tags     map[string]string
	Parent   event.RunID
	Root     event.RunID

	// Items are in the inbox of the run from its creation on, and its chain has accepted
	// them, as by Deliver before anything else. They wake no worker: a run that is delayed,
	// or queued, holds them until it is made ready. If the answer is another run, or an
	// error, they were not accepted. Create.Check has their limits. In
	// Commit.Continue they are ignored.
	Items []Item

	// CreatedBy is the record of the outbox that creates the run, of its Parent; empty:
	// none. The run is not purged before Confirm.
	CreatedBy event.ItemID
	// Deadline makes a late request harmless: past it the answer is ErrStale,
	// even if the run exists. Zero: none. The relay of an outbox sets it.
	Deadline time.Time

	// Frame is the first frame of the log, CommitID its name and Seq the number of
	// its last event.
	Frame    []byte
	CommitID event.CommitID
	Seq      uint64

	// Status is its label for people until the first commit; empty: pending.
	Status event.Status

	// Delay parks the run until that long from now; At until then. The later
	// one counts; a time that is past means now.
	Delay time.Duration
	At    time.Time

	// Retention is how long the run is kept after its end; not positive:
	// DefaultRetention. Of this, of Delay and of At any value can be kept: times end
	// with the year 9999 (see event.Instant).
	Retention time.Duration

	// Uses are the limits of which the run has permits while a session owns it, as MergeUses
	// returns them; none: it has all that it needs. A store that is no Limiter refuses them.
	Uses []Use
	// Whole says that the run has its permits from its first claim to the end of its chain,
	// and not only while a session owns it.
	Whole bool

	// Gather lets the start share a run with others of its key; nil: it has a run of its own.
	// In Commit.Continue it is ignored.
	Gather *Gather

	// Fair is the key by which the run has its share of what begins: of the ready runs of a
	// route and a priority each key has as many turns as any other, or Share times as many as
	// one with a share of 1; empty: it goes in the order of arrival. Share is 1 to MaxShare; 0
	// is 1. A store that is no Limiter refuses a run with a Fair.
	Fair  string
	Share int

	// RerunOf is a run that has ended, and that this one is tried again as; empty: none. It must be in the same partition.
	// In the action that creates the run, or finds that it was created before, the old one leaves its group of trouble and names
	// this one as its Rerun: of several, the last.
	RerunOf event.RunID

	// Owner claims the run in the action that creates it; nil: it waits for a
	// worker. A run that would not be ready at once, because it is delayed or queued
	// after an active run, is not created:
	// ErrNotClaimable. Nor is it if the session has expired: ErrExpired.
	Owner *Owner
}

// Gather lets starts of one key share a run. The first one creates it, parked, and is its
// id; the others join it until a session owns it for the first time, or an urgent item asks it
// to end: their answer is that run, and New is not set. Each start brings one item. A run that
// gathers is woken by no item that is not urgent. Whether a start has joined a run is asked before everything
// else but whether its own run exists, and is remembered for Horizon.
type Gather struct {
	// Key is that of the run; any bytes, up to MaxName. It decides the partition, as a
	// workflow id does.
	Key string
	// Keep keeps the items of all starts, in order; else only that of the last one.
	Keep bool
	// Quiet is how long after the last start the run is made ready, and Most how long after the
	// first one at the latest; 0: that does not count. A start that comes later, but
	// before a session owns the run, does not delay it any more.
	Quiet, Most time.Duration
	// Full makes the run ready once its inbox has so many items, and then nothing joins it any
	// more; 0: any number. It goes with Keep only.
	Full int
}

// Due returns when a run is made ready that was created at a time, if a start joins it now.
func (g *Gather) Due(created, now time.Time) time.Time {
	last, quiet := created.Add(g.Most), now.Add(g.Quiet)
	if g.Most <= 0 || g.Quiet > 0 && quiet.Before(last) {
		return quiet
	}
	return last
}

// Owner is a session that owns a run from its creation on: creation and claim in one
// action, so that there is no moment at which only one of them is durable.
// The fence is epoch 1 with the token, which is made for this request alone. The
// session belongs to the partition of the run; any other counts as expired. The first
// frame may say that the run has begun, but nothing that needs a record of an outbox or a
// chunk of a stream: a Create writes neither. The continuation of a run waits for a worker:
// an Owner in Commit.Continue is ignored.
type Owner struct {
	Session SessionID
	Token   event.Token
}

// Fence returns the fence under which the run is created.
func (o *Owner) Fence() Fence { return Fence{Epoch: 1, Token: o.Token} }

// ActivePolicy decides what happens to a start whose workflow id has an active run.
type ActivePolicy uint8

// The policies for an active run.
const (
	ActiveUse    ActivePolicy = 0 // the answer is the active run
	ActiveFail   ActivePolicy = 1 // *ActiveError
	ActiveCancel ActivePolicy = 2 // cancel it and all that wait for its end; the new run starts when they have ended
	ActiveQueue  ActivePolicy = 3 // the new run starts when it and all that wait for its end have ended
	ActiveLatest ActivePolicy = 4 // as ActiveQueue, but all that wait for its end are canceled
)

// Lines reports whether a start waits in line for the end of the active run.
func (p ActivePolicy) Lines() bool { return p >= ActiveCancel && p <= ActiveLatest }

// FinishedPolicy decides what happens to a start whose workflow id has a
// finished run, and no active one.
type FinishedPolicy uint8

// The policies for a finished run.
const (
	FinishedAllow        FinishedPolicy = 0 // start
	FinishedAllowFailure FinishedPolicy = 1 // start if it did not complete, *FinishedError otherwise
	FinishedReject       FinishedPolicy = 2 // *FinishedError
)

// Created is the answer to a Create.
type Created struct {
	// Run is the new run, or the existing one under ActiveUse, or that which the start has joined.
	Run event.RunID
	// New says that Run is the run of the request, now or by an earlier try.
	New bool
	// Fence is that under which the Owner of the request owns the run; zero: it does
	// not, or does no longer: an earlier try has created the run, and it went on since.
	Fence Fence
	// Waits is since when the run waits for its permits, see ClaimedRun.Waited; zero: it does not.
	Waits time.Time
	// Err is nil, an *InvalidError (see Check), an *ActiveError, a *FinishedError,
	// ErrStale, ErrNotClaimable or ErrExpired: the last two only for a request with an
	// Owner. Of a run with uses or a fair key it may be ErrNoLimits, a *LimitError, a *StartRefusedError,
	// or with an Owner ErrNotClaimable: it must wait. Or it is a *DamagedError, a *TooLargeError, or one for which Unknown is true.
	Err error
}

// Session opens a session.
type Session struct {
	Partition   int
	ID          SessionID
	Worker      string // for people: host, pid
	TTL         time.Duration
	Routes      []Route // that it serves: see Heartbeat.Unserved and Roster
	Fingerprint string  // of the code the worker runs
}

// Heartbeat is the answer to a heartbeat.
type Heartbeat struct {
	Owned  int           // number of runs that the session owns
	Unread []event.RunID // owned runs with items in their inbox
	Next   time.Time     // next due time of the partition; zero: none
	// Outbox is the earliest due time of a record of the partition's outbox;
	// zero: there is none. A time that is past: now.
	Outbox time.Time
	// Unserved are ready runs of routes that no session serves whose lease lasts: up to
	// UnservedMost of them, in turns, so that each comes up. A partition names some to
	// one heartbeat in a CountedPause at most, whoever sends it. What it costs grows with the
	// number of routes and sessions, not with that of runs.
	Unserved []event.RunID
	// Restored are runs that no session would have found any more, because the store had lost what leads to them, and that
	// the heartbeat has put back. The audit trail of each has the reason. A store that cannot lose it restores none.
	Restored []event.RunID
}

// Owned is a run that a session owns.
type Owned struct {
	Run   event.RunID
	Fence Fence
}

// Claim asks for runs.
type Claim struct {
	Partition int
	Session   SessionID
	Token     event.Token // fresh for each call
	Routes    []Route
	Max       int // at most so many; 0 only recovers and makes due runs ready
	// Exempt is how many recoveries make a claimed run exempt; 0: none is. See Exempt.
	Exempt int
	// Room says what the worker has left of its own limits: runs that use more of one are passed
	// over, and what comes after the first of them that uses the same, unless Most is less than
	// it uses. A limit that is not named bounds nothing.
	Room []Room
	// Hinted says that there is nothing to claim for but Woken.Hinted: a store may hand out ready runs only, and
	// nothing at all if other sessions have taken the wakes of the routes. It recovers nothing then, and
	// Claimed.Next may be past. Whoever does not know what came of such a claim claims once more, and not Hinted.
	Hinted bool
}

// Claimed is the answer to a claim.
type Claimed struct {
	Runs []ClaimedRun
	Next time.Time // next due time of the partition; zero: none
	// Passed are the first runs that were passed over for lack of Room. Their routes are woken
	// for other workers: this one looks again when it has more.
	Passed []PassedRun
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
	// CalledOff says that the run has none of its permits: it must do nothing but end.
	CalledOff bool
	// Waited is since when the run had waited for the permits that it has; zero: there was room
	// in its limits when it came, or it uses none.
	Waited time.Time
	// Uses are those of the run, if some are local; else it is nil.
	Uses []Use
	// Group is that of the trouble that the run is in; empty: it is in none. See [Trouble].
	Group string
	// Loaded is the answer that Load would give now, for the whole log and the inbox,
	// without the Record, which stays empty: a worker needs only the fields above. A store
	// sets it if that costs less than another request. Nil: call Load.
	Loaded *Loaded
}

// Scope says whether an item is for one run or for its chain.
type Scope uint8

// The scopes.
const (
	ScopeChain Scope = 0 // follows the run to what it continued as
	ScopeRun   Scope = 1 // only this run
)

// Item is one entry of an inbox. Only ID and Scope mean something to a store.
type Item struct {
	ID    event.ItemID
	Scope Scope
	Body  []byte
}

// Deliver asks to put an item into an inbox.
type Deliver struct {
	Run  event.RunID
	Item Item
	// Deadline makes a late request harmless: past it the answer is ErrStale.
	// Zero: none.
	Deadline time.Time
	// Keep remembers the item until Confirm, and not only for a day: it comes from
	// an outbox. An item that was accepted before stays remembered as it was.
	Keep bool
	// Urgent lets a run that waits for permits go without them, only to end: the item asks
	// it to. See ClaimedRun.CalledOff.
	Urgent bool
}

// Load asks to read a run.
type Load struct {
	Run event.RunID
	// After skips that many frames.
	After uint64
	// Limit is the greatest number of frames to return; 0: all, negative: none.
	Limit int
	// Inbox asks for the items of the inbox.
	Inbox bool
	// Bytes is about how long the log is, if it is known: a store may read runs with long
	// logs by themselves. 0: it is not known.
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

// Record is the metadata that a store keeps beside the log of a run. All of it but the
// fence can be rebuilt from the log.
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
	Next       event.RunID  // what it continued as
	CreatedBy  event.ItemID // until it is confirmed
	CreatedAt  time.Time
	EndedAt    time.Time
	Retention  time.Duration // always positive: the default is filled in
	// Group is that of the trouble that the run is in; empty: it is in none. See [Trouble]. The log does not say
	// whether a run is blocked: a repair keeps it, or leaves it out.
	Group string

	// Rerun is the last run that this one, which has ended, was tried again as; empty: it was not. See Create.RerunOf. The
	// log of that run says so.
	Rerun event.RunID

	// Uses and Whole are those of Create. Permits says that the run has its permits: it is
	// owned, or Whole and has been. CalledOff is that of ClaimedRun. A ready run that uses
	// limits, and has neither, waits for permits.
	Uses      []Use
	Whole     bool
	Permits   bool
	CalledOff bool
	// WaitsSince is that of ClaimedRun.Waited, also of a run that still waits. The log does not
	// have it: a repair keeps it, or leaves it out.
	WaitsSince time.Time

	// Fair and Share are those of Create. With a Fair the Share is at least 1.
	Fair  string
	Share int
}

// InFlow reports whether the run is ready, and has a place by its fair key.
func (r *Record) InFlow() bool {
	return r.QueueState == StateReady && r.Fair != "" && !r.CalledOff
}

// Waits reports whether the run waits for permits.
func (r *Record) Waits() bool {
	return r.QueueState == StateReady && len(r.Uses) > 0 && !r.Permits && !r.CalledOff
}
