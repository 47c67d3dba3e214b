package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var (
	_ store.Importer     = (*Store)(nil)
	_ store.StreamLister = (*Store)(nil)
)

// Import adds a run that has ended in another store, by one script: the server does nothing else meanwhile.
func (s *Store) Import(ctx context.Context, m store.Import) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	create := m.Create()
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := s.routed(&create); err != nil {
		return false, err
	}
	c := s.importing(&m, &create)
	err := s.doReplicated(ctx, c)
	if err != nil {
		err = aboutRun(m.Record.Run, c.size, err)
	}
	fresh := false
	if err == nil {
		fresh, err = s.imported(&m, c)
	}
	if err != nil {
		return false, fmt.Errorf("import run %s: %w", m.Record.Run, err)
	}
	return fresh, nil
}

// importing returns the script that adds a run.
func (s *Store) importing(m *store.Import, create *store.Create) *call {
	rec := &m.Record
	p, run, chain := s.partitionOf(rec.Run), short(rec.Run), ""
	if rec.Chain != rec.Run {
		chain = short(rec.Chain)
	}
	label := m.Trouble.Kept()
	about := ""
	if label.Group != "" {
		about = packAbout(&label)
	}
	var info, bodies []any
	size := 0
	for i := range m.Streams {
		st, longest := &m.Streams[i], 0
		for _, body := range st.Chunks {
			longest, size = max(longest, len(body)), size+len(body)
			bodies = append(bodies, body)
		}
		closed := 0
		if st.Closed {
			closed = 1
		}
		info = append(info, st.Name, number(int64(st.First())), number(int64(st.Last)), longest, closed, len(st.Chunks))
	}
	args := []any{
		s.at(), millis(rec.CreatedAt), millis(rec.EndedAt), durationMillis(m.Retention(rec.EndedAt)), store.Horizon.Milliseconds(),
		store.DefaultRetention.Milliseconds(), short(rec.Next), chain, widKey(rec.WorkflowID), label.Group, about, store.TroubleKept.Milliseconds(),
		string(m.By), string(store.ReasonImported), len(m.Frames) - 1, len(m.Streams), len(bodies), short(rec.Rerun),
	}
	for i := range m.Frames {
		if size += len(m.Frames[i]); i > 0 {
			args = append(args, (*bytesArg)(&m.Frames[i]))
		}
	}
	create.Frame, create.CommitID, create.Seq = m.Frames[0], rec.Last, rec.Seq
	described := s.describe(nil, create, "", nil)
	described[4] = headerOfImport(m, create)
	keys := []string{p.meta(run), p.hidden(run), p.log(run), p.streams(run), p.meta(short(rec.Next)), p.hidden(short(rec.Next))}
	return &call{script: scriptImport, p: p, keys: keys, args: slices.Concat(args, info, bodies, described), size: size}
}

// headerOfImport returns the header of a run as it is before its end: the script puts it into that.
func headerOfImport(m *store.Import, create *store.Create) string {
	rec := &m.Record
	h := header{
		wid: digestOf(rec.WorkflowID), queueState: store.StateEnded, fence: store.Fence{Epoch: rec.Fence.Epoch}, last: rec.Last, seq: rec.Seq,
		status: rec.Status, frames: rec.N,
	}
	for _, f := range m.Frames {
		h.bytes += len(f)
	}
	if len(create.Uses) > 0 || create.Fair != "" {
		h.flags |= isLimited
	}
	return h.pack()
}

// imported says what has come of it.
func (s *Store) imported(m *store.Import, c *call) (bool, error) {
	refused := &store.ImportError{Run: m.Record.Run}
	switch a := c.answer(); a.word() {
	case "ok":
		s.findings(c.p, a.texts(1))
		return true, nil
	case "there":
		return false, nil
	case "goes on", "other", "hidden":
		refused.Why = store.ImportRefusal(a.word())
	case "no chain":
		refused.Why, refused.Other = store.ImportNoChain, m.Record.Chain
	case "ends":
		refused.Why, refused.Other = store.ImportEnds, long(a.text(1))
	default:
		return false, unexpected(c)
	}
	return false, refused
}

// StreamNames returns the names of the streams of a run's chain.
func (s *Store) StreamNames(ctx context.Context, run event.RunID) ([]string, error) {
	names, err := s.streamNames(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("list streams of run %s: %w", run, err)
	}
	return names, nil
}

func (s *Store) streamNames(ctx context.Context, run event.RunID) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	look, err := s.lookAtStream(ctx, run, "", "")
	if err != nil {
		return nil, err
	}
	names, err := s.client.HKeys(ctx, s.partitionOf(run).streams(look.chain)).Result()
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	slices.Sort(names)
	return names, nil
}
