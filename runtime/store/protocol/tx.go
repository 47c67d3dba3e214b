package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Tx is the access of the protocol to a store, in one atomic action. Its methods read and write,
// and make no decisions. R identifies a run and S a session, in the representation of the store;
// their zero values mean none. An error of a Tx is never a refusal: the action has failed, and the
// store must discard all its writes.
type Tx[R, S comparable] interface {
	// Now returns the time of the action by the clock of the store.
	Now() time.Time

	RunTx[R, S]
	InboxTx[R]
	CollectTx[R]
	NameTx[R]
	OutboxTx[R]
	StreamTx
	SessionTx[R, S]
	PurgeTx[R]
	FailureGroupTx

	// Limits returns the limits of the partition, or nil if the store keeps none.
	Limits() LimitTx[R]
}

// RunTx is the access to the runs with their logs.
type RunTx[R, S comparable] interface {
	// Run returns a run, hidden or not, or the zero value if it does not exist.
	Run(id event.RunID) (R, error)
	// State returns the state of a run.
	State(r R) Run[S]
	// Save stores the state of a run. It moves the run from the set of its previous queue state to
	// the set of its new one: the ready runs of its route, the runs of its owner, the blocked runs
	// of its route, the queue of its workflow id, the due times, or the purge times. The run
	// becomes the last in a queue, and the last among the ready runs of its priority.
	Save(r R, s Run[S]) error
	// Insert stores a new run with the first frame of its log, without a queue state.
	Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (R, error)
	// AppendFrame stores frame number n of the log.
	AppendFrame(r R, n uint64, frame []byte) error
	// Latest returns the last run of the chain of r, or the zero value if it was purged.
	Latest(r R) (R, error)
	// SetNext records that next follows r, and that next is the latest run of the chain.
	SetNext(r, next R) error
	// SetRerun records that another run is the rerun of r.
	SetRerun(r R, rerun event.RunID) error
	// Clear removes the data that only unfinished runs have: the inbox, step data, and the sessions
	// that have blocked the run.
	Clear(r R) error
	// StepData returns the step data under a key.
	StepData(r R, key string) (body []byte, found bool, err error)
	// SetStepData stores the step data under a key.
	SetStepData(r R, key string, body []byte) error
	// NextDue returns the earliest due time of the partition, or 0 if there is none.
	NextDue() (int64, error)
}

// InboxTx is the access to the inboxes, and to the items that chains have accepted.
type InboxTx[R comparable] interface {
	// Item returns the id of the unread item number n, counted from 0.
	Item(r R, n int) (event.ItemID, error)
	// HasRunItem reports whether any unread item from number n on has ScopeRun.
	HasRunItem(r R, n int) (bool, error)
	// AddItem puts an item at the end of the inbox.
	AddItem(r R, item store.Item) error
	// DropItems removes the first n items of the inbox.
	DropItems(r R, n int) error
	// MoveItems puts all items of a run into the empty inbox of another one.
	MoveItems(from, to R) error

	// Seen reports whether a chain has accepted an item.
	Seen(chain event.RunID, id event.ItemID) (bool, error)
	// Remember records that a chain has accepted an item. If keep is true, the record is kept until
	// Confirm. If the item was sent to a later run of the chain, that run also remembers it, under
	// its own id.
	Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error
	// ForgetSeen may drop the records of items that the chain of r accepted before a time. It keeps
	// items that are remembered until Confirm and items in the inbox of r.
	ForgetSeen(r R, before int64) error
	// Unkeep drops the record of an item that was remembered until Confirm.
	Unkeep(chain event.RunID, id event.ItemID) error
}

// NameTx is the access to the workflow ids. Each id is identified by a run that has it.
type NameTx[R comparable] interface {
	// Active returns the active run of a workflow id.
	Active(workflowID string) (R, error)
	// LastEnded returns the last run of a workflow id that has ended, or the zero value if it was
	// removed.
	LastEnded(workflowID string) (R, error)
	// Line returns the runs that wait for the end of the active run of a workflow id, in order.
	Line(workflowID string) ([]R, error)
	// IsActive reports whether r is the active run of its workflow id.
	IsActive(r R) (bool, error)
	// NextInQueue returns the run that has waited longest for the workflow id of r.
	NextInQueue(r R) (R, error)
	// SetActive sets the active run of r's workflow id. A zero active clears it. If ended is true,
	// SetActive also records r as the last run of the id that has ended.
	SetActive(r, active R, ended bool) error
	// ForgetEnded removes the record that r is the last ended run of its workflow id.
	ForgetEnded(r R) error
}

// OutboxTx is the access to the records of the outbox.
type OutboxTx[R comparable] interface {
	// AddRecord writes a fresh record and returns it. If the sender has a record with that id
	// already, the Phase of the result is 0.
	AddRecord(from R, s *store.Send, now int64) (Record, error)
	// Record returns a record of a sender. Its Phase is 0 if the record does not exist.
	Record(from R, id event.ItemID) (Record, error)
	// SetPhase sets the phase of a record.
	SetPhase(from R, rec Record, phase store.Phase, now int64) error
	// RemoveRecord removes a record.
	RemoveRecord(from R, rec Record) error
	// HasBefore reports whether there is an earlier record of the same sender and receiver, in any
	// phase.
	HasBefore(from R, rec Record) (bool, error)
	// Refresh makes all answered records before rec of the same sender and receiver fresh.
	Refresh(from R, rec Record, now int64) error
}

// Record is one record of an outbox.
type Record struct {
	ID    event.ItemID
	To    event.RunID
	Phase store.Phase
	Order int64 // position in the order of writing, if the store has such a number
}

// StreamTx is the access to the streams of chains.
type StreamTx interface {
	// Stream returns a stream of a chain.
	Stream(chain event.RunID, name string) (Stream, error)
	// SaveStream stores First, Last and Closed, and creates the stream if it does not exist.
	SaveStream(s Stream) (Stream, error)
	// TrimStream removes the chunks before First.
	TrimStream(s Stream) error
	// AddChunk stores chunk number Last.
	AddChunk(s Stream, p *store.Publication) error
	// Written returns the Nth of the last chunk that a writer has written, or 0 if there is none.
	Written(s Stream, writer string) (uint64, error)
	// DropStream removes a stream.
	DropStream(s Stream) error
}

// Stream is the state of a stream. It contains the chunks from First to Last. In an empty stream
// First is Last + 1.
type Stream struct {
	Chain       event.RunID
	Name        string
	Found       bool
	First, Last uint64
	Closed      bool
	Key         int64 // key of the stream in the store, if the store needs one
}

// SessionTx is the access to the sessions.
type SessionTx[R, S comparable] interface {
	// FindSession returns the session with an id, or the zero value.
	FindSession(id store.SessionID) (S, error)
	// Session returns the state of a session.
	Session(s S) (Session, error)
	// Blockers returns the sessions that have blocked a run, in the order in which they were added.
	// Sessions that are over may be missing.
	Blockers(r R) ([]S, error)
	// SetBlockers replaces the sessions that have blocked a run. Save stores them.
	SetBlockers(r R, sessions []S)
}

// Session is the state of a session.
type Session struct {
	ID   store.SessionID
	Code string // fingerprint of the code of its process
	// Over reports that the session is gone, or that its recovery has begun.
	Over bool
}

// FailureGroupTx is the access to the failure groups. Save and Remove maintain the runs of each
// group according to Run.Group.
type FailureGroupTx interface {
	// EnterFailureGroup records that a run enters a group at the given time. It reports whether the
	// group is new.
	EnterFailureGroup(t store.FailureGroup, at int64) (fresh bool, err error)
	// ForgetFailureGroups removes up to limit groups that contain no run and that no run has
	// entered since a time. It removes groups with the oldest entry first, and among these the
	// smallest id first.
	ForgetFailureGroups(before int64, limit int) error
}

// PurgeTx removes runs.
type PurgeTx[R comparable] interface {
	// Held returns the reasons that keep a run from its purge.
	Held(r R) (Held, error)
	// NextPurge returns the run with the earliest purge time, if that time has come.
	NextPurge(now int64) (R, error)
	// Remove removes a run and everything that is stored under its id.
	Remove(r R) error
	// ForgetChain removes the ids of items that a chain has accepted, and its streams.
	ForgetChain(chain event.RunID) error
}

// Held contains the reasons that keep an ended run from its purge.
type Held struct {
	Records bool // its outbox has records, in any phase
	Later   bool // the run is the first of a chain, and a later run is kept
	Kept    bool // an item is remembered under the run's id until Confirm
}
