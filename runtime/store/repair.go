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

// Repairer is a store whose indexes and metadata can be made again from the logs.
// Package fsck needs it to repair a store; it judges nothing by itself.
type Repairer interface {
	// ScanPartition reads everything of a partition, as of one moment: also what
	// no index leads to, and however damaged it is.
	ScanPartition(ctx context.Context, partition int) (Scan, error)
}

// Scan is a partition as of one moment, with methods to repair
// it. Each method that changes something is one atomic action. It acts only if
// the data that it changes are still as the Scan shows them: otherwise they were
// repaired by another caller, or have changed, and the answer is false and nothing is
// written. So any number of them may be used at the same time, while workers work.
type Scan interface {
	// Snapshot is the state of the partition. A run whose metadata is lost has no
	// place, and only its id and frames. A session without a lease that can be given
	// one again is shown with a lease that has no end.
	Snapshot() *Snapshot
	// Partial says that runs were left out, which changed faster than they could be
	// read: what is not there may be theirs.
	Partial() bool
	// Defects are damages that a snapshot cannot show.
	Defects() []Defect

	// RepairRun makes the metadata of a run equal to the request: it removes the
	// run from the indexes of all queue states, writes its record, and adds it to that of its queue state
	// and to every index of runs. It writes an entry into the audit trail.
	RepairRun(ctx context.Context, m RunRepair) (bool, error)
	// RepairLinks changes the relations of a run to others. It acts only if all records
	// to remove are as they were examined, none of those to write exists apart from
	// them, and all that it confirms are still remembered. It writes an
	// entry into the audit trail of the run, if that exists.
	RepairLinks(ctx context.Context, m LinkRepair) (bool, error)
	// RepairName sets the runs of a workflow id.
	RepairName(ctx context.Context, m NameRepair) (bool, error)
	// RepairDefect makes the change that Defect.Repair describes.
	RepairDefect(ctx context.Context, f Defect) (bool, error)
	// Forget removes everything that is kept under the id of a run that does not
	// exist, or of a chain that has no run. It removes no log.
	Forget(ctx context.Context, run event.RunID) (bool, error)
}

// Defect is damage that a store finds in itself.
type Defect struct {
	Invariant int         // the numbers of package fsck
	Run       event.RunID // empty: it is about none in particular
	What      string
	Explain   string
	// Repair says what RepairDefect would do; empty: RepairRun of the run repairs it, or
	// nothing does if there is no run.
	Repair string
	// Key tells the defects of a scan apart.
	Key string
}

// RunRepair describes the state of a run after its repair.
type RunRepair struct {
	// Record is the whole metadata. Token, Owner and EndedAt count only for the queue state
	// that has them; QueueState must not be zero. An owned run can only stay with its owner,
	// under its fence. A queued run is put into its line by RepairName, which also
	// takes it out. The sessions that could not replay the run are forgotten: each may
	// try it again.
	Record Record
	// Hidden says that the run, which has ended, was deleted.
	Hidden bool
	// Remember adds accepted items to what the chain has seen.
	Remember map[event.ItemID]time.Time
	// Drop removes items from the inbox, by their positions in the scan in
	// rising order. A run that has ended loses all of them.
	Drop []int
	// StepData is added to that of the run, unless it has ended.
	StepData map[string][]byte

	Reason Reason
	By     SessionID // who repairs
}

// LinkRepair describes the repair of the outbox of a run, and of the ids of records of
// others that it remembers.
type LinkRepair struct {
	Run event.RunID
	// Remove are records of the scan; their run need not exist.
	Remove []Outgoing
	// Write are records that are written, as a commit writes them, after all others
	// and after Remove. The run must exist, in whatever state.
	Write []Send
	// Confirm are records that the run, or its chain, forgets as by Outbox.Confirm.
	Confirm []event.ItemID

	Reason Reason
	By     SessionID // who repairs
}

// NameRepair describes the runs of a workflow id after its repair.
type NameRepair struct {
	WorkflowID string
	Active     event.RunID   // empty: none
	Line       []event.RunID // run after run, once the active one has ended
	Last       event.RunID   // the last that ended; empty: nobody knows

	// Run is the one whose audit trail tells of it; empty: none does.
	Run    event.RunID
	Reason Reason
	By     SessionID // who repairs
}
