package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// rewritten contains the metadata fields that a repair writes or removes. A repair keeps all other
// fields.
var rewritten = []string{
	"H", "p", "c", "a", "r", "w", "h", "u", "x", "j", "J", "i", "y", "Y", "B", "N", "F", "V",
	"U", "U1", "U2", "U3", "f", "g", "R",
}

// rebuild deletes the derived data of a run and writes it anew from the log. It uses one script, so
// the change is atomic.
func (e *partitionState) rebuild(ctx context.Context, m *store.Rebuild) (bool, error) {
	var c *call
	switch seen := e.snap.Runs[m.Run]; {
	case m.Record == nil:
		c = e.forgetting(m)
	case seen == nil:
		return false, nil
	default:
		c = e.rebuilding(m, seen)
	}
	if err := e.s.do(ctx, c); err != nil {
		return false, fmt.Errorf("rebuild run %s: %w", m.Run, err)
	}
	return c.answer().word() == answerOK, nil
}

// rebuilding returns the call of the script that rebuilds the run of m.
func (e *partitionState) rebuilding(m *store.Rebuild, seen *store.RunState) *call {
	rec, run := m.Record, short(m.Run)
	p, route, wid := e.p, e.s.names.codeOf(rec.Route), widKey(rec.WorkflowID)
	fields, extra := e.fields(m, run, route)
	var reasons, before, drop, data, remember, writes, confirms []any
	for _, reason := range m.Reasons {
		reasons = append(reasons, string(reason))
	}
	was := e.metaOf(run)
	for _, name := range sortedKeys(was) {
		if name != "y" && name != "Y" {
			before = append(before, name, was[name])
		}
	}
	for _, n := range m.Drop {
		drop = append(drop, n, e.runs[run].inbox.Val()[n])
	}
	for _, key := range sortedKeys(m.StepData) {
		data = append(data, key, m.StepData[key])
	}
	for id, at := range m.Remember {
		remember = append(remember, string(id), millis(at))
	}
	for _, s := range m.Write {
		writes = append(writes, string(s.ID), string(s.To), s.Body)
	}
	for _, id := range m.Confirm {
		confirms = append(confirms, string(id))
	}
	child := rec.Parent != ""
	keys := []string{
		p.meta(run), p.hidden(run), p.inbox(run), p.stepData(run), p.extra(run), p.seen(short(rec.Chain)),
		p.routes(), p.openRuns(route, child), p.doneRuns(route, child, outcomeOf(rec.Status)), p.held(),
		p.active(), p.latest(), p.line(wid), p.sent(run), p.bodies(run), p.outbox(),
	}
	entered, sets := e.expelled(run, m)
	args := []any{
		e.s.at(), run, int(rec.QueueState), route, routeName(rec.Route), rec.Priority,
		millis(rec.Due), purgeAt(m), mark(m.Hidden, "h"), extra, string(m.By), string(seen.Owner),
		wid, e.active.Val()[wid], e.latest.Val()[wid], mark(m.Last, "l"), mark(len(e.runs[run].meta.Val()) == 0 && len(e.hidden[run].Val()) > 0, "h"),
		len(reasons), len(before) / 2, len(fields) / 2, len(sets), len(remember) / 2, len(data) / 2, len(drop) / 2, len(m.Remove), len(m.Write), len(confirms),
	}
	args = slices.Concat(args, reasons, before, fields, sets, remember, data, drop, e.removed(m), writes, confirms)
	return &call{script: scriptRebuild, p: p, keys: append(keys, entered...), args: args}
}

// expelled returns the entries to remove before a rebuild: the keys of the sets and lists, and the
// member in each of them. It includes an entry of a workflow ID only if the entry refers to the run
// and should not.
func (e *partitionState) expelled(run string, m *store.Rebuild) (keys []string, members []any) {
	all, wid, state := slices.Clone(e.entries[run]), "", store.QueueState(0)
	if m.Record != nil {
		wid, state = widKey(m.Record.WorkflowID), m.Record.QueueState
	}
	for _, at := range e.named[run] {
		right := false
		switch {
		case at.key == e.p.active():
			right = at.member == wid && state != store.StateQueued && state != store.StateEnded
		case at.key == e.p.latest():
			right = at.member == wid && m.Last
		default:
			right = at.key == e.p.line(wid) && state == store.StateQueued
		}
		if !right || m.Record == nil {
			all = append(all, at)
		}
	}
	for _, at := range all {
		keys, members = append(keys, at.key), append(members, at.member)
	}
	return keys, members
}

// removed returns the outbox records that a rebuild removes, with the values that were read.
func (e *partitionState) removed(m *store.Rebuild) (args []any) {
	run := short(m.Run)
	for _, o := range m.Remove {
		args = append(args, string(o.ID), "", "")
		if e.sent[run] != nil { // if nil, the record was not read because it does not exist
			args[len(args)-2], args[len(args)-1] = e.sent[run].Val()[string(o.ID)], e.bodies[run].Val()[string(o.ID)]
		}
	}
	return args
}

func purgeAt(m *store.Rebuild) int64 {
	if m.Record.QueueState != store.StateEnded {
		return 0
	}
	keep := m.Record.Retention
	if m.Hidden {
		keep = 0
	}
	return millis(store.PurgeTime(timeOf(millis(m.Record.CreatedAt)), timeOf(millis(m.Record.EndedAt)), keep))
}

func mark(set bool, as string) string {
	if set {
		return as
	}
	return ""
}

// fields returns the metadata fields to write, as pairs of name and value, and the text to store in
// the separate key. It keeps the fields that this release does not use.
func (e *partitionState) fields(m *store.Rebuild, run, route string) (fields []any, besides string) {
	rec := m.Record
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, name, value)
		}
	}
	was := e.metaOf(run)
	field("H", e.headerOf(rec, was)) // written first, because the server finds the first field of a hash fastest
	if rec.QueueState == store.StateEnded {
		field("p", number(millis(rec.EndedAt)))
	}
	for _, name := range sortedKeys(was) {
		if !slices.Contains(rewritten, name) {
			field(name, was[name])
		}
	}
	if rec.Priority != 0 {
		field("r", number(int64(rec.Priority)))
	}
	wid := widKey(rec.WorkflowID)
	for name, value := range map[string]string{
		"c": route, "w": wid, "u": string(rec.Parent), "N": short(rec.Next), "B": string(rec.CreatedBy), "a": number(millis(rec.CreatedAt)), "g": rec.Group, "R": short(rec.Rerun),
	} {
		field(name, value)
	}
	if len(rec.Uses) > 0 {
		for name, piece := range piecesOf(packUses(rec.Uses)) {
			field(name, piece)
		}
	}
	if len(rec.Uses) > 0 || rec.Fair != "" {
		field("f", packShare(rec.Fair, rec.Share))
		field("V", packPermits(rec.Permits, rec.Whole, rec.LeftQueue)+was["V"][min(3, len(was["V"])):])
	}
	if rec.Chain != rec.Run {
		field("h", short(rec.Chain))
	}
	packed, beside := e.describing(rec, wid)
	return append(fields, packed...), beside
}

// headerOf returns the header of a rebuilt run. The script sets the flag for unread items. headerOf
// always sets hasRest, because the end of the run may require more work.
func (e *partitionState) headerOf(rec *store.Record, was map[string]string) string {
	h := header{
		wid: digestOf(rec.WorkflowID), queueState: rec.QueueState, fence: store.Fence{Epoch: rec.Fence.Epoch}, last: rec.Last, seq: rec.Seq,
		status: rec.Status, flags: hasRest, recoveries: rec.Recoveries, frames: rec.N,
	}
	for _, f := range e.snap.Runs[rec.Run].Frames {
		h.bytes += len(f)
	}
	for flag, set := range map[byte]bool{
		isWatched: was["y"] != "" && rec.QueueState != store.StateEnded, isClosing: rec.Closing,
		isLimited: len(rec.Uses) > 0 || rec.Fair != "", hasRetention: rec.Retention > 0 && rec.Retention != store.DefaultRetention,
	} {
		if set {
			h.flags |= flag
		}
	}
	return h.pack()
}

// describing returns the metadata fields with values that the user has set, and the text to store
// in the separate key.
func (e *partitionState) describing(rec *store.Record, wid string) (fields []any, besides string) {
	switch {
	case rec.Root == rec.Parent && rec.Root != "":
		fields = append(fields, "x", "=")
	case rec.Root != "":
		fields = append(fields, "x", string(rec.Root))
	}
	if rec.Retention > 0 && rec.Retention != store.DefaultRetention {
		fields = append(fields, "j", number(durationMillis(rec.Retention)))
		if rec.Retention%time.Millisecond != 0 {
			fields = append(fields, "J", number(int64(rec.Retention)))
		}
	}
	rest := extra{tags: rec.Tags}
	if hashed(wid) {
		rest.workflowID = rec.WorkflowID
	}
	packed := rest.pack()
	switch {
	case packed == "":
	case len(packed) <= compactLimit:
		return append(fields, "i", packed), ""
	default:
		return append(fields, "i", beside), packed
	}
	return fields, ""
}

// forgetting returns the call of the script that removes all data under the ID of a missing run.
func (e *partitionState) forgetting(m *store.Rebuild) *call {
	p, run := e.p, short(m.Run)
	keys := []string{
		p.meta(run), p.hidden(run), p.log(run), p.seen(run), p.chains(), p.inbox(run), p.stepData(run), p.extra(run), p.audit(run),
		p.sent(run), p.bodies(run), p.outbox(),
	}
	entered, sets := e.expelled(run, m)
	args := slices.Concat([]any{run, len(sets), len(m.Remove)}, sets, e.removed(m))
	return &call{script: scriptForget, p: p, keys: slices.Concat(keys, entered, e.keysOfStreams(run)), args: args}
}

var (
	_ store.Importer     = (*Store)(nil)
	_ store.StreamLister = (*Store)(nil)
)

// Import adds a run that has ended in another store. It uses one script, which blocks the server
// while it adds the run.
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

// importing returns the call of the script that adds a run.
func (s *Store) importing(m *store.Import, create *store.Create) *call {
	rec := &m.Record
	p, run, chain := s.partitionOf(rec.Run), short(rec.Run), ""
	if rec.Chain != rec.Run {
		chain = short(rec.Chain)
	}
	label := m.FailureGroup.Kept()
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
	replace := ""
	if m.Replace {
		replace = "1"
	}
	args := []any{
		s.at(), millis(rec.CreatedAt), millis(rec.EndedAt), durationMillis(m.Retention(rec.EndedAt)), store.Horizon.Milliseconds(),
		store.DefaultRetention.Milliseconds(), short(rec.Next), chain, widKey(rec.WorkflowID), label.Group, about, store.FailureGroupKept.Milliseconds(),
		string(m.By), string(store.ReasonImported), len(m.Frames) - 1, len(m.Streams), len(bodies), short(rec.Rerun), replace,
	}
	for i := range m.Frames {
		if size += len(m.Frames[i]); i > 0 {
			args = append(args, (*bytesArg)(&m.Frames[i]))
		}
	}
	create.Frame, create.CommitID, create.Seq = m.Frames[0], rec.Last, rec.Seq
	var described arguments
	s.describe(&described, create, "", nil)
	described.list[4] = headerOfImport(m, create)
	keys := []string{p.meta(run), p.hidden(run), p.log(run), p.streams(run), p.meta(short(rec.Next)), p.hidden(short(rec.Next))}
	return &call{script: scriptImport, p: p, keys: keys, args: slices.Concat(args, info, bodies, described.list), size: size}
}

// headerOfImport returns the header of an imported run before its end. The script changes it to the
// header of an ended run.
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

// imported decodes the answer to an import.
func (s *Store) imported(m *store.Import, c *call) (bool, error) {
	refused := &store.ImportError{Run: m.Record.Run}
	switch a := c.answer(); a.word() {
	case answerOK:
		s.findings(c.p, a.texts(1))
		return true, nil
	case refusedThere:
		return false, nil
	case refusedGoesOn, refusedOther, refusedHidden:
		refused.Why = store.ImportRefusal(a.word())
	case refusedNoChain:
		refused.Why, refused.Other = store.ImportNoChain, m.Record.Chain
	case refusedEnds:
		refused.Why, refused.Other = store.ImportEnds, long(a.text(1))
	default:
		return false, unexpected(c)
	}
	return false, refused
}

// StreamNames returns the names of the streams of the chain of a run.
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
