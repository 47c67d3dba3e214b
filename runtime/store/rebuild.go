package store

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// The reasons of repairs. Each names the state that a run was found in; package
// fsck says what is done about it.
const (
	// ReasonTimeout: something in the run was due, the end of its time or of a
	// wait, and no timer would have woken it.
	ReasonTimeout Reason = "timeout"
	// ReasonStuckCreated: the run was created and never started, and no session could
	// ever have claimed it.
	ReasonStuckCreated Reason = "stuck_created"
	// ReasonStuckCompleted: its log ends with its completion, the store did not
	// know of its end.
	ReasonStuckCompleted Reason = "stuck_completed"
	// ReasonStuckFailed: its log ends with its failure, the store did not know of
	// its end.
	ReasonStuckFailed Reason = "stuck_failed"
	// ReasonStuckTerminal: its log ends otherwise and the store did not know; or it
	// had ended, and what only living runs have was still kept of it.
	ReasonStuckTerminal Reason = "stuck_terminal"
	// ReasonNoClaim: it was owned, but by a session that would never be recovered.
	ReasonNoClaim Reason = "no_claim"
	// ReasonStuckRunning: it had started and not ended, and nothing would have woken
	// it, or not when its log says.
	ReasonStuckRunning Reason = "stuck_running"
	// ReasonRetryAfterFailure: a failed step waited for its next attempt, and no
	// timer would have woken the run.
	ReasonRetryAfterFailure Reason = "retry_after_failure"
	// ReasonWrongRecord: the queue state was right, but its metadata, or the index
	// entries that lead to it, did not agree with its log.
	ReasonWrongRecord Reason = "wrong_record"
	// ReasonDamagedLog: its log cannot be read to its end. The run was blocked.
	ReasonDamagedLog Reason = "damaged_log"
	// ReasonLostRecord: neither a record of its outbox nor its log said any more what
	// the record was to do, or to which run. The record was removed.
	ReasonLostRecord Reason = "lost_record"
)

// Rebuilder is a store that can delete what it keeps of a run beside its log, and write it again. Package fsck decides what
// to write; the store judges nothing.
type Rebuilder interface {
	// ReadPartition reads everything of a partition, as of one moment: also what no index leads to, and however damaged it is.
	ReadPartition(ctx context.Context, partition int) (*PartitionState, error)
}

// PartitionState is a partition as of one moment.
//
// Rebuild and Defect.Do are atomic actions. They act only if the data that they change are still as this state has them:
// otherwise they return false and write nothing. So any number of processes may repair a store at the same time, while
// workers work.
type PartitionState struct {
	// Snapshot has all runs. A run whose metadata is lost has no place, and only its id and frames. A session without a
	// lease that can be given one again has a lease without an end.
	Snapshot *Snapshot
	// Partial is set if runs were left out, which changed faster than they could be read: what is missing may be theirs.
	Partial bool
	// Defects are damages that a snapshot has no room for.
	Defects []Defect
	// Rebuild rewrites one run. It writes an entry for each reason into the audit trail of a run that exists.
	Rebuild func(ctx context.Context, r *Rebuild) (bool, error)
}

// Defect is damage that a store finds in itself.
type Defect struct {
	Invariant int         // the numbers of package fsck
	Run       event.RunID // empty: it is about none in particular
	What      string
	Explain   string
	// Repair describes what Do does. Do is for data that several runs share, or that follow from no log. Nil: rebuilding
	// the run repairs it, or nothing does if there is no run.
	Repair string
	Do     func(ctx context.Context) (bool, error)
}

// Rebuild describes a run after it was rebuilt. The store removes the run from everything that leads to it, and writes it
// again: its record, its place in its queue state, its entries in all indexes of runs, and what its workflow id leads to. A
// run that is owned loses its owner: the fence of that is over.
//
// What is not derived from the log is kept, but for what Drop, Remove, Write and Confirm change: unread items, step data,
// the ids of accepted items, and the records of its outbox, of which only the outbox has how far they were delivered.
type Rebuild struct {
	Run event.RunID
	// Record is the whole metadata. Its queue state is not StateOwned, and Owner and Token are empty. Nil: no run exists
	// under the id, neither metadata nor log, and everything else that is kept under it is removed, but for fresh records.
	//
	// A living run becomes the active one of its workflow id, or with StateQueued takes its place in the line, at the
	// end of it unless it has one. The sessions that could not replay the run are forgotten: each may try it again.
	Record *Record
	// Hidden is set if the run, which has ended, was deleted; Last if it is the last of its workflow id that has ended.
	Hidden, Last bool
	// Remember adds accepted items to what the chain has seen.
	Remember map[event.ItemID]time.Time
	// Drop removes items from the inbox, by their positions in rising order. A run that has ended loses all of them.
	Drop []int
	// StepData is added to that of the run, unless it has ended.
	StepData map[string][]byte

	// Remove are records of the outbox. The run need not exist.
	Remove []Outgoing
	// Write are records that are written, as a commit writes them, after all others and after Remove.
	Write []Send
	// Confirm are records that the run, or its chain, forgets as by Outbox.Confirm.
	Confirm []event.ItemID

	Reasons []Reason
	By      SessionID // who repairs
}
