package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Tx has the operations of a store for the protocol, in one atomic action: they
// read and write, and decide nothing. R stands for a run and S for
// a session, as the store knows them; their zero values are none. An error of a Tx is
// never a refusal: the action has failed, and nothing of it may be kept.
type Tx[R, S comparable] interface {
	// Now returns the time of the action by the store's clock.
	Now() time.Time

	RunTx[R, S]
	InboxTx[R]
	GatherTx[R]
	NameTx[R]
	OutboxTx[R]
	StreamTx
	SessionTx[R, S]
	PurgeTx[R]
	TroubleTx

	// Limits returns the limits of the partition; nil: the store keeps none.
	Limits() LimitTx[R]
}

// RunTx is the runs with their logs.
type RunTx[R, S comparable] interface {
	// Run returns a run, hidden or not; none: there is no such run.
	Run(id event.RunID) (R, error)
	// State returns what is known of a run.
	State(r R) Run[S]
	// Save stores what is known of a run, and moves it from the set of the queue state that it
	// was in to that of the one in which it is now: the ready runs of its route, the runs
	// of its owner, the runs of its route that are blocked, the line of its workflow id,
	// the due times, and the times of purges. In a line and among the ready runs of one
	// priority it comes last.
	Save(r R, s Run[S]) error
	// Insert stores a new run with the first frame of its log, in no queue state yet.
	Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (R, error)
	// AppendFrame stores the frame with that number.
	AppendFrame(r R, n uint64, frame []byte) error
	// Latest returns the run that has not continued of the chain of r, none if that was
	// purged.
	Latest(r R) (R, error)
	// SetNext records that next follows r, and is the latest of the chain.
	SetNext(r, next R) error
	// SetRerun records that a run was tried again as another one.
	SetRerun(r R, rerun event.RunID) error
	// Clear removes what only runs have that have not ended: the inbox, step data, and
	// the sessions that have blocked the run.
	Clear(r R) error
	// StepData returns what a step keeps under a key.
	StepData(r R, key string) (body []byte, found bool, err error)
	// SetStepData stores it.
	SetStepData(r R, key string, body []byte) error
	// NextDue returns the earliest due time of the partition, 0 if there is none.
	NextDue() (int64, error)
}

// InboxTx is the inboxes, and what chains have accepted.
type InboxTx[R comparable] interface {
	// Item returns the id of item number n, counted from 0, of those that are unread.
	Item(r R, n int) (event.ItemID, error)
	// HasRunItem reports whether there is an item of ScopeRun from number n on.
	HasRunItem(r R, n int) (bool, error)
	// AddItem puts an item at the end of the inbox.
	AddItem(r R, item store.Item) error
	// DropItems removes the first n items.
	DropItems(r R, n int) error
	// MoveItems puts all items of a run into the empty inbox of another one.
	MoveItems(from, to R) error

	// Seen reports whether a chain has accepted an item.
	Seen(chain event.RunID, id event.ItemID) (bool, error)
	// Remember records that a chain has accepted an item, until Confirm or not. A later run
	// of a chain to which such an item was sent remembers it, too, as if it were a chain.
	Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error
	// ForgetSeen may forget what the chain of r has accepted before a time, but nothing that
	// is remembered until Confirm or is in the inbox of r.
	ForgetSeen(r R, before int64) error
	// Unkeep forgets an item that was remembered until Confirm.
	Unkeep(chain event.RunID, id event.ItemID) error
}

// NameTx is the workflow ids, each named by a run that has it.
type NameTx[R comparable] interface {
	// Active returns the active run of a workflow id.
	Active(workflowID string) (R, error)
	// LastEnded returns the last run of a workflow id that has ended, if it is kept.
	LastEnded(workflowID string) (R, error)
	// Line returns the runs that wait for the end of the active one, in order.
	Line(workflowID string) ([]R, error)
	// IsActive reports whether r is the active run of its workflow id.
	IsActive(r R) (bool, error)
	// NextInLine returns the run that has waited longest for the end of those before it.
	NextInLine(r R) (R, error)
	// SetActive makes active the active run of the workflow id of r, none: there is none.
	// If ended is set, r is the last that has ended.
	SetActive(r, active R, ended bool) error
	// ForgetEnded makes the workflow id of r forget that r was the last that ended.
	ForgetEnded(r R) error
}

// OutboxTx is the records of the outbox.
type OutboxTx[R comparable] interface {
	// AddRecord writes a fresh record and returns it, unless the sender has one with that id: its Phase is 0 then.
	AddRecord(from R, s *store.Send, now int64) (Record, error)
	// Record returns a record of a sender; its Phase is 0 if there is none.
	Record(from R, id event.ItemID) (Record, error)
	// SetPhase puts a record into a phase.
	SetPhase(from R, rec Record, phase store.Phase, now int64) error
	// RemoveRecord removes a record.
	RemoveRecord(from R, rec Record) error
	// HasBefore reports whether there is an earlier record of the same sender and receiver,
	// in whatever phase.
	HasBefore(from R, rec Record) (bool, error)
	// Refresh makes the answered ones of those records fresh.
	Refresh(from R, rec Record, now int64) error
}

// Record is one record of an outbox.
type Record struct {
	ID    event.ItemID
	To    event.RunID
	Phase store.Phase
	Order int64 // as records were written, if the store has such a number
}

// StreamTx is the streams of chains.
type StreamTx interface {
	// Stream returns a stream of a chain.
	Stream(chain event.RunID, name string) (Stream, error)
	// SaveStream stores First, Last and Closed, and makes the stream if it is not there.
	SaveStream(s Stream) (Stream, error)
	// TrimStream removes the chunks before First.
	TrimStream(s Stream) error
	// AddChunk stores chunk number Last.
	AddChunk(s Stream, p *store.Publication) error
	// Written returns the Nth of the last chunk of a writer, 0 if it has written none.
	Written(s Stream, writer string) (uint64, error)
	// DropStream removes a stream.
	DropStream(s Stream) error
}

// Stream is how a stream stands. The chunks from First to Last are kept; of an empty one
// First is Last + 1.
type Stream struct {
	Chain       event.RunID
	Name        string
	Found       bool
	First, Last uint64
	Closed      bool
	Key         int64 // of the store, if it needs one
}

// SessionTx is the sessions.
type SessionTx[R, S comparable] interface {
	// FindSession returns a session, none if there is none of that id.
	FindSession(id store.SessionID) (S, error)
	// Session returns what is known of a session.
	Session(s S) (Session, error)
	// Blockers returns the sessions that have blocked a run, as they were noted; of those
	// that are over some may be absent.
	Blockers(r R) ([]S, error)
	// SetBlockers stores others. Save stores them.
	SetBlockers(r R, sessions []S)
}

// Session is the state of a session.
type Session struct {
	ID   store.SessionID
	Code string // fingerprint of what its process runs
	// Over says that it is gone, or that its recovery has begun.
	Over bool
}

// TroubleTx keeps the groups of trouble. Which runs are in them, Save and Remove
// keep: those whose Group says so.
type TroubleTx interface {
	// EnterTrouble records that a run comes into a group at a time. It reports whether the
	// group is new.
	EnterTrouble(t store.Trouble, at int64) (fresh bool, err error)
	// ForgetTroubles forgets up to limit groups in which there is no run, and into which none
	// has come since a time: those first into which none has come for longest, and of those
	// the one whose id comes first.
	ForgetTroubles(before int64, limit int) error
}

// PurgeTx forgets runs.
type PurgeTx[R comparable] interface {
	// Held returns the reasons that keep a run from its purge.
	Held(r R) (Held, error)
	// NextPurge returns the run that may be purged first, if its time has come.
	NextPurge(now int64) (R, error)
	// Remove removes a run and everything that is stored under its id.
	Remove(r R) error
	// ForgetChain removes the ids of items that a chain has accepted, and its streams.
	ForgetChain(chain event.RunID) error
}

// Held has the reasons that keep a run that has ended from its purge.
type Held struct {
	Records bool // of its outbox, in whatever phase
	Later   bool // it is the first of a chain, of which a later run is kept
	Kept    bool // an item is remembered under its id until Confirm
}
