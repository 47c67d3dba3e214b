package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ImportTx contains the methods that Import needs in addition to a Tx.
type ImportTx[R comparable] interface {
	// InsertPast is like Insert for a run that was created in another store at the given time.
	InsertPast(c *store.Create, chain event.RunID, created int64) (R, error)
	// SetChain records that next follows r. If next is empty, no run follows r. If latest is not
	// empty, SetChain records it as the latest run of the chain. The store need not contain next or
	// latest.
	SetChain(r R, next, latest event.RunID) error
	// ReplaceFrames replaces the log by as many frames.
	ReplaceFrames(r R, frames [][]byte) error
}

// Import adds a checked run that has ended in another store. The run has no queue state except
// ended, uses no limits, and wakes no worker. The error is a failure of the Tx or a refusal.
func (o *Op[R, S]) Import(tx ImportTx[R], m *store.Import) (r R, fresh bool, err error) {
	var none R
	rec := &m.Record
	r, err = o.Tx.Run(rec.Run)
	if err != nil {
		return none, false, err
	}
	if r != none {
		s := o.Tx.State(r)
		if err := s.guardSame(rec); err != nil || !m.Replace {
			return r, false, err
		}
		return r, false, o.replaceLog(tx, r, m)
	}
	latest, err := o.guardChain(rec)
	if err != nil {
		return none, false, err
	}
	c := m.Create()
	c.Frame, c.CommitID, c.Seq, c.Retention = m.Frames[0], rec.Last, rec.Seq, m.Retention(o.Tx.Now())
	if r, err = tx.InsertPast(&c, rec.Chain, Millis(rec.CreatedAt)); err != nil {
		return none, false, err
	}
	for n, frame := range m.Frames[1:] {
		if err := o.Tx.AppendFrame(r, uint64(n)+2, frame); err != nil {
			return none, false, err
		}
	}
	if err := tx.SetChain(r, rec.Next, latest); err != nil {
		return none, false, err
	}
	for i := range m.Streams {
		if err := o.importStream(rec.Chain, &m.Streams[i]); err != nil {
			return none, false, err
		}
	}
	if err := o.settleImport(r, m); err != nil {
		return none, false, err
	}
	o.Changes.Frames = append(o.Changes.Frames, r)
	return r, true, nil
}

// replaceLog replaces the log of a run that has ended, and the streams of a chain that has ended.
// Nothing else can write to either of them, and the frames keep their commit ids.
func (o *Op[R, S]) replaceLog(tx ImportTx[R], r R, m *store.Import) error {
	var none R
	if len(m.Streams) > 0 {
		latest, err := o.Tx.Latest(r)
		if err != nil {
			return err
		}
		if latest != none && o.Tx.State(latest).QueueState != store.StateEnded {
			return refuse(&store.ImportError{Run: m.Record.Run, Why: store.ImportGoesOn})
		}
	}
	if err := tx.ReplaceFrames(r, m.Frames); err != nil {
		return err
	}
	for i := range m.Streams {
		if err := o.importStream(m.Record.Chain, &m.Streams[i]); err != nil {
			return err
		}
	}
	return nil
}

// guardSame refuses an import if the existing run differs from the run of the record. A commit id
// is never used twice, so logs with the same last commit id are equal. [F3]
func (s *Run[S]) guardSame(rec *store.Record) error {
	switch {
	case s.Hidden:
		return refuse(&store.ImportError{Run: s.ID, Why: store.ImportHidden})
	case s.QueueState != store.StateEnded:
		return refuse(&store.ImportError{Run: s.ID, Why: store.ImportGoesOn})
	case s.Last != rec.Last:
		return refuse(&store.ImportError{Run: s.ID, Why: store.ImportOther})
	}
	return nil
}

// guardChain returns the latest known run of the chain after the import; empty if it does not
// change. The first run of a chain is kept as long as any other run of the chain, so it must be
// imported first.
func (o *Op[R, S]) guardChain(rec *store.Record) (event.RunID, error) {
	if rec.Chain == rec.Run {
		return "", nil
	}
	var none R
	first, err := o.Tx.Run(rec.Chain)
	if err != nil {
		return "", err
	}
	if first == none || o.Tx.State(first).Hidden || o.Tx.State(first).Chain != rec.Chain {
		return "", refuse(&store.ImportError{Run: rec.Run, Why: store.ImportNoChain, Other: rec.Chain})
	}
	latest, err := o.Tx.Latest(first)
	if err != nil {
		return "", err
	}
	known := latest != none && latest != first
	switch {
	case rec.Next == "" && known:
		return "", refuse(&store.ImportError{Run: rec.Run, Why: store.ImportEnds, Other: o.Tx.State(latest).ID})
	case rec.Next == "":
		return rec.Run, nil
	case known:
		return "", nil
	}
	after, err := o.Tx.Run(rec.Next)
	if err != nil || after != none {
		return "", err
	}
	return rec.Next, nil // rec.Next does not exist until it is imported
}

// settleImport sets the end, the failure group and the workflow id of an imported run.
func (o *Op[R, S]) settleImport(r R, m *store.Import) error {
	var none R
	rec := &m.Record
	s := o.Tx.State(r)
	s.N, s.Seq, s.Last, s.Fence.Epoch = rec.N, rec.Seq, rec.Last, rec.Fence.Epoch
	s.QueueState, s.Status, s.Ended = store.StateEnded, rec.Status, Millis(rec.EndedAt)
	if label := m.FailureGroup.Kept(); label.Group != "" {
		s.Group = label.Group
		if err := o.enterFailureGroup(label, s.Ended); err != nil {
			return err
		}
	}
	if err := o.schedule(r, &s); err != nil {
		return err
	}
	if err := o.Tx.Save(r, s); err != nil {
		return err
	}
	if rec.Rerun != "" {
		if err := o.Tx.SetRerun(r, rec.Rerun); err != nil {
			return err
		}
	}
	if s.ID != s.Chain { // a later run of a chain holds back the purge of the first
		first, err := o.Tx.Run(s.Chain)
		if err != nil {
			return err
		}
		if err := o.Reschedule(first); err != nil {
			return err
		}
	}
	if s.WorkflowID == "" || rec.Next != "" {
		return nil
	}
	last, err := o.Tx.LastEnded(s.WorkflowID)
	if err != nil || last != none && o.Tx.State(last).Ended > s.Ended {
		return err
	}
	active, err := o.Tx.Active(s.WorkflowID)
	if err != nil {
		return err
	}
	return o.Tx.SetActive(r, active, true)
}

// importStream creates a stream in a chain that has no stream of that name.
func (o *Op[R, S]) importStream(chain event.RunID, m *store.ImportedStream) error {
	st, err := o.Tx.Stream(chain, m.Name)
	if err != nil {
		return err
	}
	if st.Found { // the stream is left over from a removed run
		if err := o.Tx.DropStream(st); err != nil {
			return err
		}
	}
	st, err = o.Tx.SaveStream(Stream{Chain: chain, Name: m.Name, First: m.First(), Last: m.Last, Closed: m.Closed})
	if err != nil {
		return err
	}
	for i, body := range m.Chunks {
		if body == nil {
			body = []byte{}
		}
		st.Last = m.First() + uint64(i)
		if err := o.Tx.AddChunk(st, &store.Publication{Stream: m.Name, Body: body}); err != nil {
			return err
		}
	}
	st.Last = m.Last
	_, err = o.Tx.SaveStream(st)
	return err
}
