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

// Seizer is a store that can take a run regardless of its queue state and owner. Without it, an
// operation that ends or pauses a run waits until the run's owner or its queue releases it.
type Seizer interface {
	// Seize is ClaimRun for a session that will end or park the run. It also takes a run that is
	// queued after another run of its workflow ID, a run that waits for permits, which stays
	// without them, and, if owned is set, a run that another session owns, whose fence it
	// invalidates. It returns the errors of ClaimRun except ErrNotClaimable.
	Seize(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID, owned bool) (ClaimedRun, error)
}

// Lister is a store that can be searched. No query reads more runs than its budget, whatever the
// size of the store.
type Lister interface {
	// List returns a page of runs in the order of the query.
	List(ctx context.Context, q Query) (Page, error)
	// Count returns the number of runs that match. It ignores Cursor, Limit and Oldest.
	Count(ctx context.Context, q Query) (Counts, error)
}

// Query selects runs. The zero value selects all runs; otherwise all fields must match.
type Query struct {
	Statuses   []event.Status // any of them
	Workflow   string
	Queue      string
	WorkflowID string
	Tags       map[string]string // all of them
	Parent     event.RunID
	Root       event.RunID // selects this run, if it has no parent, and all its descendants
	From, To   time.Time   // created in [From, To)
	// Group selects the runs of a failure group, Failing the runs of any group: see [FailureGroup].
	Group   string
	Failing bool
	// Roots excludes runs that have a parent.
	Roots bool
	// Started excludes runs that no user has started, as defined by event.Internal.
	Started bool
	// Oldest reverses the order: see NewestFirst.
	Oldest bool
	// Cursor continues after the page that returned it. The order must be the same as for that
	// page.
	Cursor string
	// Limit is the size of a page; 0 means 100.
	Limit int
	// Budget is the maximum number of runs to read, including runs that do not match; DefaultBudget
	// if not positive. Runs that an index of the store excludes are not read.
	Budget int
}

// DefaultBudget is the budget of a Query without one.
const DefaultBudget = 20_000

// Page is a part of a list.
type Page struct {
	Runs []Record
	// Cursor is the cursor of the next page, as returned by CursorAfter; empty if there is none.
	Cursor string
	// Partial reports that the budget was exhausted before the page was full, or before it was
	// known whether there are more runs. The next page, which may be empty, continues directly
	// after the last run that was read.
	Partial bool
	// Looked is the number of runs that were read.
	Looked int
}

// Counts contains the numbers of runs that match a query.
type Counts struct {
	// Runs contains the numbers by status and route, without zeros.
	Runs map[Counted]int
	// Exact reports that the numbers are exact, as of one moment in each partition. Otherwise the
	// budget was exhausted and the numbers are lower bounds.
	Exact bool
	// Looked is the number of runs that were read. Runs counted by an index of the store are not
	// included.
	Looked int
}

// Counted is a group of runs that are counted together.
type Counted struct {
	// Status is the status of the runs; empty for runs that have not ended and were not read
	// because the budget was exhausted.
	Status event.Status
	Route  Route
}

// Roster is a store that reports which routes are served.
type Roster interface {
	// Serves reports whether a session with a valid lease serves the route in a partition.
	Serves(ctx context.Context, partition int, c Route) (bool, error)
}

// Auditor is a store that records interventions in runs.
type Auditor interface {
	// Audit returns the entries about a run, oldest first.
	Audit(ctx context.Context, run event.RunID) ([]AuditEntry, error)
}

// AuditEntry is one intervention.
type AuditEntry struct {
	Time       time.Time
	Run        event.RunID
	Reason     Reason
	By         SessionID  // the session that intervened
	Owner      SessionID  // the owner before the intervention
	QueueState QueueState // the queue state before
	Status     event.Status
	Epoch      uint64 // before
}

// Reason is the reason of an intervention.
type Reason string

// The reasons of this release.
const (
	// ReasonExpiredClaim: the lease of the owner had expired.
	ReasonExpiredClaim Reason = "expired_claim"
	// ReasonProcessEnded: the process of the owner has provably ended.
	ReasonProcessEnded Reason = "process_ended"
	// ReasonSessionClosed: the owner left without releasing the run.
	ReasonSessionClosed Reason = "session_closed"
)

// Inspector is a store that returns its whole contents. It serves checks and tests; the result is
// one consistent state.
type Inspector interface {
	Inspect(ctx context.Context) (*Snapshot, error)
}

// Snapshot is the whole state of a store.
type Snapshot struct {
	Now  time.Time
	Runs map[event.RunID]*RunState
	// Active and LastEnded are by workflow ID. Lines contains the runs queued after the active run
	// of each workflow ID, in order. Empty queues are absent.
	Active    map[string]event.RunID
	LastEnded map[string]event.RunID
	Lines     map[string][]event.RunID
	// Gathering contains the runs that collect starts, by key.
	Collecting map[string]event.RunID
	// Seen is by chain, which has the ID of its first run: the IDs of accepted items and the times
	// of their acceptance.
	Seen map[event.RunID]map[event.ItemID]time.Time
	// Kept contains the items of Seen that are remembered until Confirm, sorted. They are listed by
	// chain, and also by the named run if that is a later one.
	Kept map[event.RunID][]event.ItemID
	// Streams is by chain, then by name. Chains without streams are absent.
	Streams map[event.RunID]map[string]StreamState
	// Outbox contains all records, those of one sender in the order in which they were written.
	// Deadline is zero.
	Outbox []Outgoing
	// Ready lists the ready runs of each route in the order in which they would
	// be claimed. Empty routes are absent.
	Ready  map[Route][]event.RunID
	Timers map[event.RunID]time.Time
	Leases map[SessionID]Lease
	Owned  map[SessionID][]event.RunID // sorted
	Unread map[SessionID][]event.RunID // sorted
	Wakes  map[Route]bool              // only those that are set
	// Purges contains the time from which each ended run may be purged. Runs whose purge is held
	// back (see Purger) may be absent.
	Purges map[event.RunID]time.Time
	Audit  []AuditEntry
	// Limits contains the parts of limits that are configured, of which permits are held, or for
	// which runs wait. Waiting contains the limiter queues, first position first: their runs are
	// ready, and not in Ready.
	Limits  map[LimitID]LimitState
	Waiting []WaitingQueue
	// Flows contains the number of runs with fairness keys for each route and priority. Zeros are
	// absent.
	FairKeys map[FairID]int
	// FailureGroups contains the failure groups, and Failing the runs that are indexed as members of
	// any group, sorted.
	FailureGroups map[string]FailureGroupState
	Failing       []event.RunID
	// Labels contains for each run the labels under which it is indexed, as returned by
	// Label.String. It is nil if the store has no complete index of labels, or compares the index
	// with the records itself.
	Labels map[event.RunID][]string
	// Entries contains all entries, ordered by space and key.
	Entries []Entry
}

// WaitingQueue is a limiter queue: the runs of one route that wait for the same permits.
type WaitingQueue struct {
	Route Route
	Uses  []Use
	Runs  []event.RunID // in the order of their positions
	// Shut reports that the queue is closed: claims skip it until it is admitted. Called reports
	// that it is admitted: no other queue precedes it until Until. For a closed queue, Until is the
	// time at which the rates of its limits may admit it; zero if it does not wait for a rate.
	Closed, Admitted bool
	Until            time.Time
	// Stands has a bit for each of Uses at which the queue, closed or admitted, counts: there it
	// holds back the queues after it. Owed reports that the queue may count at some limits although
	// earlier ones have no free capacity.
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

// RunState is a run as a snapshot shows it.
type RunState struct {
	Record
	Frames [][]byte
	Inbox  []Item
	Hidden bool // the run was deleted and may not be purged yet
	// Incompatible are the live sessions whose code could not replay the run, sorted.
	Incompatible []SessionID
}

// Lease is the lease of a session.
type Lease struct {
	Session     SessionID
	Partition   int
	Worker      string
	Fingerprint string
	Expires     time.Time
	TTL         time.Duration
	Recovering  bool
}

// DamageTeller is a store that continues when it finds damage during an operation on many runs,
// such as a claim: it skips the damaged run, so that the others are not delayed, and reports the
// damage here.
type DamageTeller interface {
	// Damage returns the damage found since the last call. Damage that is still found after an hour
	// is reported again. [Damages] implements this.
	Damage() []*DamagedError
}

// StepDataStore is a store that keeps data of a step for its next attempt, such as the details of
// its last heartbeat. The data are not part of the log: they are written beside it, under the fence
// of the run, and are removed when the run ends. They are not [Entries], because a write of an entry
// cannot check the fence of a run and reset its recoveries in the same action, and the entries of a
// store are in one partition, while the end of a run removes its data in the partition of the run.
type StepDataStore interface {
	// SetStepData stores body under a key, replacing previous data. ErrFenced: the run is not owned
	// under this fence, and nothing was written. If progress is set, a body that differs from the
	// stored one counts as progress of the run, as Commit.Progress does: its recoveries are reset
	// in the same action.
	SetStepData(ctx context.Context, run event.RunID, fence Fence, key string, body []byte, progress bool) error
	// StepData returns the data of a run. It may be empty.
	StepData(ctx context.Context, run event.RunID) (map[string][]byte, error)
}
