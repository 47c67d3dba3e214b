package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Reasons of repairs. Each reason names the state in which fsck found a run. Package fsck describes
// the repairs.
const (
	// ReasonTimeout means that the time limit of the run or of a wait had expired, and no timer
	// would have woken the run.
	ReasonTimeout Reason = "timeout"
	// ReasonStuckCreated means that the run was created and never started, and no session could
	// have claimed it.
	ReasonStuckCreated Reason = "stuck_created"
	// ReasonStuckCompleted means that the log ends with the completion of the run, which the store
	// had not recorded.
	ReasonStuckCompleted Reason = "stuck_completed"
	// ReasonStuckFailed means that the log ends with the failure of the run, which the store had
	// not recorded.
	ReasonStuckFailed Reason = "stuck_failed"
	// ReasonStuckTerminal means that the log ends with another end of the run, which the store had
	// not recorded, or that the run had ended and the store had data that only open runs have.
	ReasonStuckTerminal Reason = "stuck_terminal"
	// ReasonNoClaim means that the run was owned by a session that would never be recovered.
	ReasonNoClaim Reason = "no_claim"
	// ReasonStuckRunning means that the run had started and not ended, and nothing would have woken
	// it at the time that its log requires.
	ReasonStuckRunning Reason = "stuck_running"
	// ReasonRetryAfterFailure means that a failed step waited for its next attempt, and no timer
	// would have woken the run.
	ReasonRetryAfterFailure Reason = "retry_after_failure"
	// ReasonWrongRecord means that the queue state was correct, but the metadata or an index entry
	// of the run contradicted the log.
	ReasonWrongRecord Reason = "wrong_record"
	// ReasonDamagedLog means that the log cannot be read to its end. The repair has blocked the
	// run.
	ReasonDamagedLog Reason = "damaged_log"
	// ReasonLostRecord means that an outbox record lacked its operation or its receiver, and the
	// log did not contain them. The repair has removed the record.
	ReasonLostRecord Reason = "lost_record"
)

// Rebuilder is a store that can delete the derived data of a run and write them anew. Package fsck
// decides which data to write; the store decides nothing.
type Rebuilder interface {
	// ReadPartition reads all data of a partition, including damaged data and data to which no
	// index refers. The result is one consistent state.
	ReadPartition(ctx context.Context, partition int) (*PartitionState, error)
}

// PartitionState is a consistent state of a partition.
//
// Rebuild and Defect.Do are atomic actions. They act only if the data that they change are the same
// as in this state. Otherwise they return false and write nothing. Therefore any number of
// processes may repair a store at the same time, while workers use it.
type PartitionState struct {
	// Snapshot contains all runs. A run without metadata has only its ID and frames, and no queue
	// state. A session whose missing lease can be restored has a lease without an end.
	Snapshot *Snapshot
	// Partial reports that some runs are missing because they changed faster than they could be
	// read. Data that seem to be missing may belong to them.
	Partial bool
	// Defects contains damage that a Snapshot cannot represent.
	Defects []Defect
	// Rebuild rewrites one run. If the run exists, it adds an entry to the audit trail for each
	// reason.
	Rebuild func(ctx context.Context, r *Rebuild) (bool, error)
}

// Defect is damage that a store has found in its own data.
type Defect struct {
	Invariant int         // number of the invariant in package fsck
	Run       event.RunID // empty if the defect concerns no single run
	What      string
	Explain   string
	// Repair describes the effect of Do. Do repairs data that several runs share or that do not
	// follow from a log. If Do is nil, a rebuild of Run repairs the defect. If Run is empty as
	// well, the defect cannot be repaired.
	Repair string
	Do     func(ctx context.Context) (bool, error)
}

// Rebuild describes the data of a run after its rebuild. The store removes all references to the
// run. Then it writes the record, the position in the queue state, the entries in all indexes of
// runs, and the references of the workflow ID. An owned run loses its owner, whose fence becomes
// invalid.
//
// The rebuild keeps data that do not follow from the log, except for the changes in Drop, Remove,
// Write and Confirm. These data are unread items, step data, the IDs of accepted items, and the
// outbox records, whose delivery state is only in the outbox.
type Rebuild struct {
	Run event.RunID
	// Record is the complete metadata. Its queue state must not be StateOwned, and Owner and Token
	// must be empty. Nil means that no run with this ID exists, neither its metadata nor its log.
	// Then the rebuild removes all other data under the ID except fresh outbox records.
	//
	// An open run becomes the active run of its workflow ID. With StateQueued it keeps its position
	// in the queue, or becomes the last run of the queue. The rebuild removes the sessions that
	// could not replay the run, so that each of them may try it again.
	Record *Record
	// Hidden reports that the ended run was deleted. Last reports that it is the last ended run of
	// its workflow ID.
	Hidden, Last bool
	// Remember contains accepted items to add to Seen of the chain.
	Remember map[event.ItemID]time.Time
	// Drop contains the positions of items to remove from the inbox, in ascending order. An ended
	// run loses all items.
	Drop []int
	// StepData is added to the step data of the run unless the run has ended.
	StepData map[string][]byte

	// Remove contains outbox records to remove, even if the run does not exist.
	Remove []Outgoing
	// Write contains outbox records to write as by a commit. They follow all other records, and are
	// written after the removal of Remove.
	Write []Send
	// Confirm contains the IDs of confirmed records. What the run or its chain still store about
	// these records is removed, as Outbox.Confirm does.
	Confirm []event.ItemID

	Reasons []Reason
	By      SessionID // origin of the repair, for the audit trail
}
