package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// The reasons of repairs. Each names the state in which a run was found; package fsck describes the
// repairs.
const (
	// ReasonTimeout: the time limit of the run or of a wait had expired, and no timer would have
	// woken the run.
	ReasonTimeout Reason = "timeout"
	// ReasonStuckCreated: the run was created and never started, and no session could ever have
	// claimed it.
	ReasonStuckCreated Reason = "stuck_created"
	// ReasonStuckCompleted: its log ends with its completion, which the store had not recorded.
	ReasonStuckCompleted Reason = "stuck_completed"
	// ReasonStuckFailed: its log ends with its failure, which the store had not recorded.
	ReasonStuckFailed Reason = "stuck_failed"
	// ReasonStuckTerminal: its log ends in another way, which the store had not recorded, or the
	// run had ended and the store still had data that only open runs have.
	ReasonStuckTerminal Reason = "stuck_terminal"
	// ReasonNoClaim: it was owned, but by a session that would never be recovered.
	ReasonNoClaim Reason = "no_claim"
	// ReasonStuckRunning: it had started and not ended, and nothing would have woken it at the time
	// required by its log.
	ReasonStuckRunning Reason = "stuck_running"
	// ReasonRetryAfterFailure: a failed step waited for its next attempt, and no
	// timer would have woken the run.
	ReasonRetryAfterFailure Reason = "retry_after_failure"
	// ReasonWrongRecord: the queue state was right, but its metadata, or the index
	// entries that lead to it, did not agree with its log.
	ReasonWrongRecord Reason = "wrong_record"
	// ReasonDamagedLog: its log cannot be read to its end. The run was blocked.
	ReasonDamagedLog Reason = "damaged_log"
	// ReasonLostRecord: neither a record of its outbox nor its log contained the operation or the
	// receiver of the record. The record was removed.
	ReasonLostRecord Reason = "lost_record"
)

// Rebuilder is a store that can delete the data it keeps of a run beside its log and write them
// again. Package fsck decides what to write; the store makes no decision.
type Rebuilder interface {
	// ReadPartition reads all data of a partition as of one moment, including data that no index
	// refers to and damaged data.
	ReadPartition(ctx context.Context, partition int) (*PartitionState, error)
}

// PartitionState is a partition as of one moment.
//
// Rebuild and Defect.Do are atomic actions. They act only if the data that they change are still as
// in this state; otherwise they return false and write nothing. So any number of processes may
// repair a store at the same time, while workers use it.
type PartitionState struct {
	// Snapshot contains all runs. A run whose metadata is lost has no queue state, only its ID and
	// frames. A session without a lease that can be restored has a lease without an end.
	Snapshot *Snapshot
	// Partial reports that runs were left out because they changed faster than they could be read.
	// Missing data may belong to them.
	Partial bool
	// Defects are damages that a Snapshot cannot represent.
	Defects []Defect
	// Rebuild rewrites one run. It writes an entry for each reason into the audit trail of a run
	// that exists.
	Rebuild func(ctx context.Context, r *Rebuild) (bool, error)
}

// Defect is damage that a store finds in itself.
type Defect struct {
	Invariant int         // number of the invariant in package fsck
	Run       event.RunID // empty if it concerns no particular run
	What      string
	Explain   string
	// Repair describes the effect of Do. Do repairs data that several runs share or that follow
	// from no log. If it is nil, rebuilding Run repairs the defect; without a Run nothing does.
	Repair string
	Do     func(ctx context.Context) (bool, error)
}

// Rebuild describes a run after it was rebuilt. The store removes all references to the run, and
// writes it again: its record, its position in its queue state, its entries in all indexes of runs,
// and the references of its workflow ID. An owned run loses its owner, whose fence becomes invalid.
//
// Data that are not derived from the log are kept, except for the changes in Drop, Remove, Write
// and Confirm: unread items, step data, the IDs of accepted items, and the records of its outbox,
// whose delivery state is only in the outbox.
type Rebuild struct {
	Run event.RunID
	// Record is the complete metadata. Its queue state is not StateOwned, and Owner and Token are
	// empty. Nil means that no run with this ID exists, neither metadata nor log: all other data
	// under the ID are removed, except for fresh records.
	//
	// An open run becomes the active run of its workflow ID, or with StateQueued takes its position
	// in the queue, by default the last one. The sessions that could not replay the run are
	// removed, so that each may try it again.
	Record *Record
	// Hidden reports that the ended run was deleted; Last that it is the last ended run of its
	// workflow ID.
	Hidden, Last bool
	// Remember adds accepted items to what the chain has seen.
	Remember map[event.ItemID]time.Time
	// Drop removes items from the inbox, by their positions in ascending order. An ended run loses
	// all of them.
	Drop []int
	// StepData is added to that of the run, unless it has ended.
	StepData map[string][]byte

	// Remove contains records of the outbox to remove. The run need not exist.
	Remove []Outgoing
	// Write contains records to write as a commit does, after all others and after Remove.
	Write []Send
	// Confirm contains records whose traces at the run, or its chain, are removed as by
	// Outbox.Confirm.
	Confirm []event.ItemID

	Reasons []Reason
	By      SessionID // origin of the repair, for the audit trail
}
