package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// As returns s, or the first store that s wraps, as a T. A store that wraps
// another one has a method Unwrap() Store. Use As for optional abilities:
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

// Seizer is a store that can take a run from whatever has it. Without it, what ends or pauses a run waits until a
// worker or its turn lets go of it.
type Seizer interface {
	// Seize is ClaimRun for a run that the session ends, or lets park: it takes also one that is queued after
	// another run of its workflow id, and one that waits for permits, which it gets none of; and if owned is set, one
	// that another session owns, whose fence is over then. Its errors are those of ClaimRun; ErrNotClaimable is none of them.
	Seize(ctx context.Context, partition int, session SessionID, token event.Token, run event.RunID, owned bool) (ClaimedRun, error)
}

// Lister is a store that can be searched. No query reads more than its budget, whatever is in
// the store.
type Lister interface {
	// List returns a page of runs in the order of the query.
	List(ctx context.Context, q Query) (Page, error)
	// Count returns how many runs match; Cursor, Limit and Oldest are not looked at.
	Count(ctx context.Context, q Query) (Counts, error)
}

// Query selects runs. The zero value selects all; all fields must match.
type Query struct {
	Statuses   []event.Status // any of them
	Workflow   string
	Queue      string
	WorkflowID string
	Tags       map[string]string // all of them
	Parent     event.RunID
	Root       event.RunID // that run, if it has no parent, and all below it
	From, To   time.Time   // created in [From, To)
	// Group takes only the runs of a group, Troubled those of any: see [Trouble].
	Group    string
	Troubled bool
	// Roots leaves out the runs that have a parent.
	Roots bool
	// Started leaves out the runs that no user has started: event.Internal says which.
	Started bool
	// Oldest turns the order round: see NewestFirst.
	Oldest bool
	// Cursor continues after the page that returned it, which must have been asked for in the
	// same order.
	Cursor string
	// Limit is the size of a page; 0: 100.
	Limit int
	// Budget is how many runs may be looked at, those that do not match among them; not
	// positive: DefaultBudget. What an index of the store leaves out is not looked at.
	Budget int
}

// DefaultBudget is that of a Query without one.
const DefaultBudget = 20_000

// Page is a part of a list.
type Page struct {
	Runs []Record
	// Cursor is where the next page starts, as CursorAfter says; empty: there is none.
	Cursor string
	// Partial says that the budget was spent before the page was full, or before it was known
	// whether there are more: the next page, which may be empty, goes on right behind the last run that was looked at.
	Partial bool
	// Looked is how many runs were looked at.
	Looked int
}

// Counts has how many runs match a query.
type Counts struct {
	// Runs is by status and route. Nothing is counted for which there is no run.
	Runs map[Counted]int
	// Exact says that it is the number of all that match, as of one moment in each partition;
	// otherwise the budget was spent, and there are at least so many.
	Exact bool
	// Looked is how many runs were looked at: those that an index of the store counts are
	// not.
	Looked int
}

// Counted says what is counted together.
type Counted struct {
	// Status is that of the runs; empty: they have not ended, and were not looked at, because the
	// budget was spent.
	Status event.Status
	Route  Route
}

// Roster is a store that tells who serves what.
type Roster interface {
	// Serves reports whether a session whose lease lasts serves the route in a partition.
	Serves(ctx context.Context, partition int, c Route) (bool, error)
}

// Auditor is a store that remembers interventions into a run from outside of it.
type Auditor interface {
	// Audit returns the entries about a run, oldest first.
	Audit(ctx context.Context, run event.RunID) ([]AuditEntry, error)
}

// AuditEntry is one intervention.
type AuditEntry struct {
	Time       time.Time
	Run        event.RunID
	Reason     Reason
	By         SessionID  // who intervened
	Owner      SessionID  // who owned the run before
	QueueState QueueState // where the run was before
	Status     event.Status
	Epoch      uint64 // before
}

// Reason is the reason of an intervention.
type Reason string

// The reasons of this release.
const (
	// ReasonExpiredClaim: the lease of the owner was past.
	ReasonExpiredClaim Reason = "expired_claim"
	// ReasonProcessEnded: the process of the owner has provably ended.
	ReasonProcessEnded Reason = "process_ended"
	// ReasonSessionClosed: the owner left without releasing the run.
	ReasonSessionClosed Reason = "session_closed"
)

// Inspector is a store that shows everything it holds. It serves checks and
// tests; the answer is one consistent state.
type Inspector interface {
	Inspect(ctx context.Context) (*Snapshot, error)
}

// Snapshot is the whole state of a store.
type Snapshot struct {
	Now  time.Time
	Runs map[event.RunID]*RunState
	// Active and LastEnded are by workflow id; Lines holds the runs that wait,
	// first in line first. Empty lines are absent.
	Active    map[string]event.RunID
	LastEnded map[string]event.RunID
	Lines     map[string][]event.RunID
	// Gathering has the runs that gather starts, by key.
	Gathering map[string]event.RunID
	// Seen is by chain, which is named after its first run: the ids of accepted
	// items and when they were accepted.
	Seen map[event.RunID]map[event.ItemID]time.Time
	// Kept has the items of Seen that are remembered until Confirm, sorted: by chain, and by the
	// run named if that is a later one.
	Kept map[event.RunID][]event.ItemID
	// Streams is by chain, then by name. Chains without any are absent.
	Streams map[event.RunID]map[string]StreamState
	// Outbox holds all records; those of one sender are in the order in
	// which they were written. Deadline is zero.
	Outbox []Outgoing
	// Ready lists the ready runs of each route in the order in which they would
	// be claimed. Empty routes are absent.
	Ready  map[Route][]event.RunID
	Timers map[event.RunID]time.Time
	Leases map[SessionID]Lease
	Owned  map[SessionID][]event.RunID // sorted
	Unread map[SessionID][]event.RunID // sorted
	Wakes  map[Route]bool              // only those that are set
	// Purges has for each run that has ended when it may be purged. Of runs that
	// something holds back (see Purger) it may have none.
	Purges map[event.RunID]time.Time
	Audit  []AuditEntry
	// Limits has the parts of limits that are configured, of which permits are held, or for
	// which runs wait. Waiting has the lines of those, first in turn first: their runs are
	// ready, and not in Ready.
	Limits  map[LimitID]LimitState
	Waiting []WaitingLine
	// Flows says how many runs are counted in each flow. Empty ones are absent.
	Flows map[FlowID]int
	// Troubles has the groups of trouble, and Troubled the runs that are found as those of any group, sorted.
	Troubles map[string]TroubleState
	Troubled []event.RunID
	// Labels has for each run the labels by which it is found, as Label.String names them. Nil: the store has no
	// index of them that is whole, or compares it with the records by itself.
	Labels map[event.RunID][]string
	// Journal has the lines of the journal, the oldest first.
	Journal []JournalLine
	// Catalog has the entry of each workflow in the catalogue, as CatalogEntry.Pack has written it.
	Catalog map[string][]byte
	// Views has each view by its name, as View.Pack has written it.
	Views map[string][]byte
}

// WaitingLine is the runs of one route that wait for the same permits.
type WaitingLine struct {
	Route Route
	Uses  []Use
	Runs  []event.RunID // in the order of their turns
	// Shut says that claims leave it out until it is called, Called that nobody goes before it
	// until Until. Until of a shut line is when the rates of its limits may let it go; zero:
	// that is not what it waits for.
	Shut, Called bool
	Until        time.Time
	// Stands has a bit for each of Uses at which the queue, closed or admitted, counts: there it
	// holds back the queues after it. Owed: it may count at some without room at those before.
	Stands uint16
	Owed   bool
}

// At returns the uses of limits at which the line counts.
func (l *WaitingLine) At() (at []Use) {
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
	Hidden bool // it was deleted, and may not be purged yet
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

// DamageTeller is a store that continues when it finds damage during an operation on many
// runs, such as a claim: it leaves the damaged run out, so that the others are not delayed,
// and reports it here.
type DamageTeller interface {
	// Damage returns the damage that was found since the last call. Damage that is found
	// again is reported again after an hour. [Damages] keeps count of that.
	Damage() []*DamagedError
}

// StepDataStore is a store that keeps data of a step for its next attempt, such
// as the details of its last heartbeat. It is no part of the log: it is
// written beside it, under the fence of the run, and ends with the run.
type StepDataStore interface {
	// SetStepData stores body under a key, replacing what was there. ErrFenced: the
	// run is not owned under this fence; nothing was written. If progress is set, a
	// body that is not the one that was there says that the run got further, as
	// Commit.Progress does: its recoveries are forgotten, in the same action.
	SetStepData(ctx context.Context, run event.RunID, fence Fence, key string, body []byte, progress bool) error
	// StepData returns the data of a run, which may be none.
	StepData(ctx context.Context, run event.RunID) (map[string][]byte, error)
}
