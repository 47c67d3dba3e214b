package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Importer is a store that can import runs which have ended in another store.
//
// An imported run has the same state as if it had ended in this store. This includes its ID, log,
// times, tags and label, and its entries in all lists and counts. Its workflow ID resolves to the
// run unless a later run has ended. The items that it sent or received are not imported, because
// they concern runs of the other store. Therefore it has no outbox records and no IDs of accepted
// items. Its audit trail has an entry with ReasonImported.
//
// The retention counts from the import. Otherwise a run that ended long ago would be purged at
// once. The end time does not change, so the Retention of the record is extended by the time
// between the end and the import.
type Importer interface {
	// Import adds one run in one atomic action. fresh reports whether the run is new. If the run
	// exists with the same log, Import changes nothing unless Replace is set, whatever else the
	// request contains. Therefore an interrupted import can be repeated. The first run of a chain must be imported
	// before the others, together with the streams of the chain. Import returns an *InvalidError, a
	// *DamagedError or an [event.VersionError] from Import.Check, an *ImportError, or a
	// *TooLargeError.
	Import(ctx context.Context, m Import) (fresh bool, err error)
}

// Import is an ended run that was read from another store.
type Import struct {
	// Record is the record as Load returns it. It must be consistent with the log. Owner, Token,
	// Recoveries and CreatedBy are ignored.
	Record Record
	Frames [][]byte // complete log
	// Streams contains the streams of the chain if the run is the first of its chain. It is empty
	// for all other runs.
	Streams []ImportedStream
	// FailureGroup is the failure group in the record. The zero value means no group.
	FailureGroup FailureGroup
	By           SessionID // importing session, for the audit trail
	// Replace replaces the log by Frames, and the streams by Streams, if the run exists with the same
	// log: the same frames with user data that were sealed again. All runs of the chain must have
	// ended if there are Streams; otherwise the error is an *ImportError.
	Replace bool
}

// ImportedStream is a stream of a chain with its kept chunks. The index of the last chunk is Last.
type ImportedStream struct {
	Name   string
	Chunks [][]byte
	Last   uint64 // index of the last chunk that was written, even if it is not kept; 0 if none was written
	Closed bool
}

// First returns the index of the first kept chunk, or Last + 1 if no chunk is kept.
func (s *ImportedStream) First() uint64 { return s.Last + 1 - uint64(len(s.Chunks)) }

// ReasonImported means that the run was imported after it had ended in another store.
const ReasonImported Reason = "imported"

// ImportError reports the reason why a run cannot be imported. Nothing was written.
type ImportError struct {
	Run   event.RunID
	Why   ImportRefusal
	Other event.RunID // the conflicting or missing run
}

// ImportRefusal is a reason not to import a run.
type ImportRefusal string

// Reasons for which a run cannot be imported.
const (
	ImportOpen    ImportRefusal = "open"     // the run has not ended
	ImportGoesOn  ImportRefusal = "goes on"  // the run exists in this store and has not ended
	ImportOther   ImportRefusal = "other"    // another run with the same ID exists
	ImportHidden  ImportRefusal = "hidden"   // the run exists in this store and was deleted
	ImportNoChain ImportRefusal = "no chain" // Other, the first run of the chain, does not exist
	ImportEnds    ImportRefusal = "ends"     // the chain has ended with run Other
	ImportRound   ImportRefusal = "round"    // the run is its own ancestor or continuation, directly or indirectly
)

// refusals contains the problem and the fix for each reason.
var refusals = map[ImportRefusal][2]string{
	ImportOpen:    {"it has not ended", "end it in its store, for example with flowctl terminate, and export it again; after the import, flowctl resume-new continues it in a new run"},
	ImportGoesOn:  {"it is in the store, and has not ended", "exclude it: a run is executed in one store"},
	ImportOther:   {"another run of its id is in the store", "exclude it, or import it into another store"},
	ImportHidden:  {"it was deleted from the store", "import it after it is purged there, at the earliest two minutes after its end"},
	ImportNoChain: {"the first run of its chain is not in the store", "import that run first: an export of flowctl contains whole chains"},
	ImportEnds:    {"its chain ends with another run", "exclude it, or import it into another store"},
	ImportRound:   {"it is its own descendant, or continues as an earlier run of its chain", "exclude it: no store writes such a run"},
}

// Error returns the run, the reason and the fix.
func (e *ImportError) Error() string {
	other := ""
	if e.Other != "" {
		other = fmt.Sprintf(" (%s)", e.Other)
	}
	return fmt.Sprintf("import run %s: %s%s: %s", e.Run, refusals[e.Why][0], other, e.Fix())
}

// Permanent returns true, because a store always refuses the same request.
func (e *ImportError) Permanent() bool { return true }

// Fix returns the action that the operator must take.
func (e *ImportError) Fix() string { return refusals[e.Why][1] }

// Retention returns the retention of a run that is imported at the time now, in whole milliseconds.
func (m *Import) Retention(now time.Time) time.Duration {
	const most = math.MaxInt64 - time.Millisecond
	keep := min(m.Record.Retention, most)
	if keep <= 0 {
		keep = DefaultRetention
	}
	if since := now.Sub(m.Record.EndedAt); since > 0 {
		keep += min(since, most-keep)
	}
	if part := keep % time.Millisecond; part > 0 {
		keep += time.Millisecond - part
	}
	return keep
}

// Create returns a request that would create the run, without a deadline and an owner.
func (m *Import) Create() Create {
	rec := &m.Record
	return Create{
		Run: rec.Run, WorkflowID: rec.WorkflowID, Route: rec.Route, Priority: rec.Priority, Tags: rec.Tags, Parent: rec.Parent, Root: rec.Root,
		Uses: rec.Uses, Whole: rec.Whole, Fair: rec.Fair, Share: rec.Share,
	}
}

// Check reads the log. It returns an error if the run has not ended, if the record is not
// consistent with the log, or if some stores cannot keep a value. Stores must call Check before
// anything else, because the data come from a file of unknown origin.
func (m *Import) Check() error {
	create := m.Create()
	if err := create.Check(); err != nil {
		return err
	}
	for _, run := range []event.RunID{m.Record.Run, m.Record.Chain} {
		if _, err := event.ParseRunID(string(run)); err != nil {
			return &InvalidError{What: "id of a run", Value: string(run), Reason: "is none"}
		}
	}
	for what, run := range map[string]event.RunID{"parent": m.Record.Parent, "root": m.Record.Root, "next run": m.Record.Next, "rerun": m.Record.Rerun} {
		if _, err := event.ParseRunID(string(run)); run != "" && err != nil {
			return &InvalidError{What: what, Value: string(run), Reason: "is not the id of a run"}
		}
	}
	if rec := &m.Record; rec.Run == rec.Parent || rec.Run == rec.Root || rec.Run == rec.Next || rec.Run == rec.Rerun || rec.Next != "" && rec.Next == rec.Chain {
		return &ImportError{Run: rec.Run, Why: ImportRound}
	}
	if m.Record.QueueState != StateEnded || !m.Record.Status.Terminal() {
		return &ImportError{Run: m.Record.Run, Why: ImportOpen}
	}
	if err := m.checkLog(); err != nil {
		return err
	}
	if err := m.checkFailureGroup(); err != nil {
		return err
	}
	if err := m.checkRerun(); err != nil {
		return err
	}
	return m.checkStreams()
}

// differs returns the error for a run whose record or streams contradict the log.
func (m *Import) differs(format string, args ...any) error {
	return &DamagedError{Run: m.Record.Run, Err: fmt.Errorf(format, args...)}
}

// checkLog reads the whole log and checks it.
func (m *Import) checkLog() error {
	var state event.LogState
	var last *event.Frame
	epoch := uint64(0)
	for i, b := range m.Frames {
		f, err := event.DecodeFrame(b)
		if err == nil && last != nil && f.Prev != last.CommitID || last == nil && err == nil && f.Prev != (event.CommitID{}) {
			err = fmt.Errorf("it continues another frame: %w", event.ErrCorrupt)
		}
		for n := 0; err == nil && n < len(f.Events); n++ {
			err = state.Apply(&f.Events[n])
		}
		if _, newer := errors.AsType[*event.VersionError](err); newer {
			return fmt.Errorf("import run %s: frame %d: %w", m.Record.Run, i+1, err)
		}
		if err != nil {
			return &DamagedError{Run: m.Record.Run, Frame: uint64(i) + 1, Err: err}
		}
		last, epoch = f, max(epoch, f.Epoch)
	}
	if last == nil {
		return m.differs("its log is empty")
	}
	if !state.Run.Terminal() {
		return m.differs("its record is %s, and its log has not ended", m.Record.Status)
	}
	rec := &m.Record
	if rec.N != uint64(len(m.Frames)) || rec.Seq != state.Seq || rec.Last != last.CommitID || rec.Fence.Epoch < epoch {
		return m.differs("its record ends with frame %d and event %d, its log ends with frame %d and event %d", rec.N, rec.Seq, len(m.Frames), state.Seq)
	}
	return m.checkRecord(&state)
}

// checkRecord compares the record with the state that results from the log.
func (m *Import) checkRecord(log *event.LogState) error {
	rec, spec := &m.Record, log.Spec
	for _, c := range []struct {
		what         string
		kept, logged any
	}{
		{"status", rec.Status, log.Status()}, {"workflow id", rec.WorkflowID, spec.WorkflowID}, {"workflow", rec.Route.Workflow, spec.Workflow},
		{"parent", rec.Parent, spec.Parent}, {"root", rec.Root, spec.Root}, {"next run", rec.Next, log.Next},
		{"place at the head of its chain", rec.Chain == rec.Run, spec.ContinuedOf == ""},
	} {
		if c.kept != c.logged {
			return m.differs("its %s is %q in its record, and %q in its log", c.what, fmt.Sprint(c.kept), fmt.Sprint(c.logged))
		}
	}
	if !spec.OnQueue(rec.Route.Queue) {
		return m.differs("its queue is %q in its record, and %q in its log", rec.Route.Queue, spec.RouteQueue())
	}
	if !maps.Equal(rec.Tags, spec.Tags) {
		return m.differs("its tags are %v in its record, and %v in its log", rec.Tags, spec.Tags)
	}
	if spec.Fair != "" && rec.Fair != spec.Fair || spec.PermitSlot == 0 && len(spec.Uses) > 0 && len(rec.Uses) == 0 {
		return m.differs("the limits or the fairness key of its record differ from its log")
	}
	for what, at := range map[string]time.Time{"creation": rec.CreatedAt, "end": rec.EndedAt} {
		if at.IsZero() || !event.Instant(at).Equal(at) {
			return m.differs("the time of its %s in its record is %v", what, at)
		}
	}
	return nil
}

func (m *Import) checkFailureGroup() error {
	switch group := m.Record.Group; {
	case group != m.FailureGroup.Group:
		return m.differs("its record has group %q, and comes with group %q", group, m.FailureGroup.Group)
	case group == "":
		return nil
	case m.Record.Status != event.StatusFailed:
		return m.differs("it is %s, but in a failure group", m.Record.Status)
	default:
		return CheckGroup(group)
	}
}

// checkRerun checks the fields about reruns. Their values are in the log of the rerun, which may be
// missing in the store, so they cannot be compared with the log of this run.
func (m *Import) checkRerun() error {
	switch rec := &m.Record; {
	case rec.Rerun == "":
		return nil
	case rec.Status != event.StatusFailed && rec.Status != event.StatusCanceled:
		return m.differs("it is %s, but was retried", rec.Status)
	case rec.Group != "":
		return m.differs("it was retried, but is in group %q", rec.Group)
	}
	return nil
}

func (m *Import) checkStreams() error {
	if len(m.Streams) > 0 && m.Record.Chain != m.Record.Run {
		return m.differs("it has streams, but is not the first run of its chain")
	}
	names := map[string]bool{}
	for i := range m.Streams {
		s := &m.Streams[i]
		if err := CheckStreamName(s.Name); err != nil {
			return &InvalidError{What: "name of a stream", Value: s.Name[:min(len(s.Name), 100)], Reason: "is not a valid name"}
		}
		if names[s.Name] || s.Last > math.MaxInt64 || uint64(len(s.Chunks)) > s.Last {
			return m.differs("stream %q comes twice, or has %d chunks up to chunk %d", s.Name, len(s.Chunks), s.Last)
		}
		names[s.Name] = true
	}
	return nil
}
