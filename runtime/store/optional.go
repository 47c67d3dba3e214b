package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// As returns s, or the first store that s wraps, as a T. A store that wraps another one has a
// method Unwrap() Store. Use As for optional interfaces:
//
//	if l, ok := store.As[store.Lister](s); ok { … }
func As[T any](s Store) (T, bool) {
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var zero T
	return zero, false
}

// Seizer is a store that can take a run regardless of its queue state and owner. With other stores,
// an operation that ends or pauses a run must wait until the owner releases the run or the run
// leaves its queue.
type Seizer interface {
	// Seize is like ClaimRun, for a session that will end or park the run. In addition, it takes a
	// run that is queued after another run of its workflow ID, and a run that waits for permits,
	// which gets none. If owned is set, it also takes a run from another session, whose fence
	// becomes invalid. It returns the errors of ClaimRun except ErrNotClaimable.
	Seize(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID, owned bool) (ClaimedRun, error)
}

// Lister is a store that can search its runs. A query reads at most as many runs as its budget
// permits, however large the store is.
type Lister interface {
	// List returns a page of runs in the order of the query.
	List(ctx context.Context, q Query) (Page, error)
	// Count returns the numbers of runs that match. It ignores Cursor, Limit and Oldest.
	Count(ctx context.Context, q Query) (Counts, error)
}

// Query selects runs. A run must match all fields. The zero value selects all runs.
type Query struct {
	Statuses   []event.Status // statuses, any of which matches
	Workflow   string
	Queue      string
	WorkflowID string
	Tags       map[string]string // tags, all of which must match
	Parent     event.RunID
	Root       event.RunID // selects this run if it has no parent, and all its descendants
	From, To   time.Time   // selects runs created at From or later, and before To
	// Group selects the runs of a failure group. Failing selects the runs of all failure groups.
	// See [FailureGroup].
	Group   string
	Failing bool
	// Roots excludes the runs that have a parent.
	Roots bool
	// Started excludes the runs that no user has started: see event.Internal.
	Started bool
	// Oldest reverses the order of NewestFirst.
	Oldest bool
	// Cursor is the cursor of the previous page. The query must have the same order as the query
	// for that page.
	Cursor string
	// Limit is the maximum number of runs of the page. 0 means 100.
	Limit int
	// Budget is the maximum number of runs to read, including runs that do not match. If it is not
	// positive, DefaultBudget is used. Runs that an index of the store excludes are not read.
	Budget int
}

// DefaultBudget is the budget of a query that sets none.
const DefaultBudget = 20_000

// Page is a part of a list.
type Page struct {
	Runs []Record
	// Cursor is the cursor for the next page, as returned by CursorAfter. It is empty if there is
	// no next page.
	Cursor string
	// Partial reports that the budget was exhausted before the page was full, or before it was
	// known whether there are more runs. The next page, which may be empty, continues after the
	// last run that was read.
	Partial bool
	// Looked is the number of runs that were read.
	Looked int
}

// Counts contains the numbers of runs that match a query.
type Counts struct {
	// Runs contains the numbers by status and route, without zeros.
	Runs map[Counted]int
	// Exact reports that the numbers are exact. The numbers of each partition were then read at one
	// moment. If Exact is false, the budget was exhausted and the numbers are lower bounds.
	Exact bool
	// Looked is the number of runs that were read. It does not include runs that were counted by an
	// index of the store.
	Looked int
}

// Counted is the status and the route of runs that are counted together.
type Counted struct {
	// Status is the status of the runs. It is empty for open runs that were not read because the
	// budget was exhausted.
	Status event.Status
	Route  Route
}

// ReadyLister is a store that can list ready runs without claiming them. A dispatcher lets functions
// claim them by name.
type ReadyLister interface {
	// Ready returns at most limit ready runs of the routes in a partition, in the order in which
	// Claim would examine them. Of a limiter queue it returns at most the first run, and only if Claim
	// would examine it. Unlike Claim it needs no session and changes nothing.
	Ready(ctx context.Context, partition int, routes []Route, limit int) ([]event.RunID, error)
}

// Roster is a store that can report whether a route is served.
type Roster interface {
	// Serves reports whether a session with a valid lease serves the route in the partition.
	Serves(ctx context.Context, partition int, c Route) (bool, error)
}

// Auditor is a store that records interventions in runs, such as recoveries and repairs.
type Auditor interface {
	// Audit returns the entries of the audit trail of a run, oldest first.
	Audit(ctx context.Context, run event.RunID) ([]AuditEntry, error)
}

// AuditEntry is one intervention in a run.
type AuditEntry struct {
	Time       time.Time
	Run        event.RunID
	Reason     Reason
	By         SessionID  // session that intervened
	Owner      SessionID  // owner before the intervention
	QueueState QueueState // queue state before the intervention
	Status     event.Status
	Epoch      uint64 // epoch before the intervention
}

// Reason is the cause of an intervention, such as [ReasonExpiredClaim].
type Reason string

// Reasons that this release uses.
const (
	// ReasonExpiredClaim means that the lease of the owner had expired.
	ReasonExpiredClaim Reason = "expired_claim"
	// ReasonProcessEnded means that the process of the owner had provably ended.
	ReasonProcessEnded Reason = "process_ended"
	// ReasonSessionClosed means that the owner closed its session without releasing the run.
	ReasonSessionClosed Reason = "session_closed"
)

// Inspector is a store that can return its whole contents, for checks and tests. The result is one
// consistent state.
type Inspector interface {
	Inspect(ctx context.Context) (*Snapshot, error)
}

// Snapshot is the complete and consistent state of a store.
type Snapshot struct {
	Now  time.Time
	Runs map[event.RunID]*RunState
	// Active and LastEnded contain runs by workflow ID. Lines contains, by workflow ID, the runs
	// that are queued after the active run, in their order. It has no entry for an empty queue.
	Active    map[string]event.RunID
	LastEnded map[string]event.RunID
	Lines     map[string][]event.RunID
	// Collecting contains the runs that collect starts, by collection key.
	Collecting map[string]event.RunID
	// Seen contains the IDs of accepted items and the times of their acceptance, by chain. The ID
	// of a chain is the ID of its first run.
	Seen map[event.RunID]map[event.ItemID]time.Time
	// Kept contains the items of Seen that are remembered until Confirm, sorted. An item is listed
	// under its chain. It is also listed under the run to which it was addressed if that is a later
	// run of the chain.
	Kept map[event.RunID][]event.ItemID
	// Streams contains streams by chain and name. It has no entry for a chain without streams.
	Streams map[event.RunID]map[string]StreamState
	// Outbox contains all outbox records. The records of a sender are in the order in which they
	// were written. Their Deadline is zero.
	Outbox []Outgoing
	// Ready contains the ready runs of each route in the order in which they would be claimed. It
	// has no entry for a route without ready runs.
	Ready  map[Route][]event.RunID
	Timers map[event.RunID]time.Time
	Leases map[SessionID]Lease
	Owned  map[SessionID][]event.RunID // sorted
	Unread map[SessionID][]event.RunID // sorted
	Wakes  map[Route]bool              // only wakes that are set
	// Purges contains the time from which each ended run may be purged. A run whose purge is held
	// back may be missing: see Purger.
	Purges map[event.RunID]time.Time
	Audit  []AuditEntry
	// Limits contains the parts of limits that are configured, that have permits in use, or that
	// have waiting runs. Waiting contains the limiter queues, ordered by position. Their runs are
	// ready, but not in Ready.
	Limits  map[LimitID]LimitState
	Waiting []WaitingQueue
	// FairKeys contains the number of runs with fairness keys, by route and priority. It has no
	// entry for 0.
	FairKeys map[FairID]int
	// FailureGroups contains the failure groups. Failing contains the runs that are indexed as
	// members of any group, sorted.
	FailureGroups map[string]FailureGroupState
	Failing       []event.RunID
	// Labels contains, for each run, the labels under which the run is indexed, as returned by
	// Label.String. It is nil if the store has no complete index of labels, or if the store itself
	// compares the index with the records.
	Labels map[event.RunID][]string
	// Entries contains all named entries, ordered by space and key.
	Entries []Entry
}

// WaitingQueue is a limiter queue: the runs of one route that wait for the same permits.
type WaitingQueue struct {
	Route Route
	Uses  []Use
	Runs  []event.RunID // in the order of their positions
	// Closed reports that claims skip the queue until it is admitted. Admitted reports that no
	// other queue precedes this one until the time Until. For a closed queue, Until is the time at
	// which the rates of its limits may admit it. It is zero if the queue does not wait for a rate.
	Closed, Admitted bool
	Until            time.Time
	// Stands has a bit for each element of Uses. The bit is set if the queue counts at this limit,
	// where it holds back the queues after it. Owed reports that the queue may count at some limits
	// although earlier limits have no free capacity.
	Stands uint16
	Owed   bool
}

// At returns the uses of limits at which the queue counts.
func (l *WaitingQueue) At() (at []Use) {
	for i, u := range l.Uses {
		if l.Stands>>i&1 == 1 {
			at = append(at, u)
		}
	}
	return at
}

// RunState is the state of a run in a snapshot.
type RunState struct {
	Record
	Frames [][]byte
	Inbox  []Item
	Hidden bool // the run was deleted and is not purged yet
	// Incompatible contains the live sessions whose code could not replay the run, sorted.
	Incompatible []SessionID
}

// Lease is the right of a session to own runs until the time Expires, with the properties of the
// session.
type Lease struct {
	Session     SessionID
	Partition   int
	Worker      string
	Fingerprint string
	Expires     time.Time
	TTL         time.Duration
	Recovering  bool
}

// DamageTeller is a store that continues if it finds damage during an operation on many runs, such
// as a claim. It skips the damaged run, so that other runs are not delayed, and reports the damage
// by this interface.
type DamageTeller interface {
	// Damage returns the damage that was found since the last call. Damage that persists is
	// reported again after an hour. [Damages] helps to implement this method.
	Damage() []*DamagedError
}

// StepDataStore is a store that keeps data of a step for its next attempt, such as the details of
// its last heartbeat. The data are not part of the log. They are written under the fence of the
// run, and removed when the run ends. [Entries] are not suitable for two reasons. A write of an
// entry cannot check the fence of a run and reset its recoveries in the same action. All entries
// are in one partition, but the end of a run must remove the data in the partition of the run.
type StepDataStore interface {
	// SetStepData stores body under a key and replaces previous data. It returns ErrFenced and
	// writes nothing if the run is not owned under this fence. If progress is set and body differs
	// from the stored data, the write counts as progress of the run: it resets the recoveries in
	// the same action, as Commit.Progress does.
	SetStepData(ctx context.Context, run event.RunID, fence Fence, key string, body []byte, progress bool) error
	// StepData returns the step data of a run by key. It may be empty.
	StepData(ctx context.Context, run event.RunID) (map[string][]byte, error)
}

// SessionDataStore is a store that keeps data of a session for operators, such as the rates of its
// worker. The data are not part of any log. The store removes them with the session, so that the
// data of a dead worker disappear.
type SessionDataStore interface {
	// SetSessionData stores body as the data of a session and replaces the previous data. An empty
	// body removes the data. SetSessionData does not renew the lease. It returns ErrExpired and
	// writes nothing if the session has ended or is being recovered, and an *InvalidError if
	// CheckSessionData refuses body.
	SetSessionData(ctx context.Context, partition int, session SessionID, body []byte) error
	// SessionData returns the sessions of a partition that have data, in the order of their IDs. The
	// lease of a session may have expired: see Lease.Live.
	SessionData(ctx context.Context, partition int) ([]SessionData, error)
}

// SessionData is the data of a session.
type SessionData struct {
	Lease
	Body []byte
}

// MaxSessionData is the maximum size of the data of a session, in bytes.
const MaxSessionData = 8 << 10

// CheckSessionData returns an *InvalidError if body is larger than MaxSessionData.
func CheckSessionData(body []byte) error {
	if len(body) > MaxSessionData {
		return tooLong("data of a session", string(body), MaxSessionData)
	}
	return nil
}
