package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// rewritten are the fields of the metadata that a repair writes, or leaves out.
var rewritten = []string{
	"H", "p", "c", "a", "r", "w", "h", "u", "x", "j", "J", "i", "y", "Y", "B", "N", "F", "V",
	"U", "U1", "U2", "U3", "f", "g", "R",
}

// RepairRun puts a run where it belongs, if its metadata is as it was examined.
func (e *partitionScan) RepairRun(ctx context.Context, m store.RunRepair) (bool, error) {
	run := short(m.Record.Run)
	seen := e.snap.Runs[m.Record.Run]
	if seen == nil {
		return false, nil
	}
	p, route := e.p, e.s.names.codeOf(m.Record.Route)
	fields, extra := e.fields(&m, run, route)
	var before, drop, data, remember []any
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
	keys := []string{p.meta(run), p.hidden(run), p.inbox(run), p.stepData(run), p.extra(run), p.seen(short(m.Record.Chain)),
		p.routes(), p.openRuns(route, m.Record.Parent != ""), p.doneRuns(route, m.Record.Parent != "", outcomeOf(m.Record.Status)), p.held()}
	var sets []any
	for _, at := range e.entries[run] {
		keys, sets = append(keys, at.key), append(sets, at.member)
	}
	args := []any{
		e.s.at(), run, int(m.Record.QueueState), route, routeName(m.Record.Route), m.Record.Priority,
		millis(m.Record.Due), purgeAt(&m), hiddenMark(m.Hidden), extra, string(m.Reason), string(m.By), string(seen.Owner),
		len(before) / 2, len(fields) / 2, len(sets), len(remember) / 2, len(data) / 2, len(drop) / 2,
	}
	c := &call{script: scriptRepairRun, p: p, keys: keys, args: slices.Concat(args, before, fields, sets, remember, data, drop)}
	if err := e.s.do(ctx, c); err != nil {
		return false, fmt.Errorf("repair run %s: %w", m.Record.Run, err)
	}
	return c.answer().word() == "ok", nil
}

func purgeAt(m *store.RunRepair) int64 {
	if m.Record.QueueState != store.StateEnded {
		return 0
	}
	keep := m.Record.Retention
	if m.Hidden {
		keep = 0
	}
	return millis(store.PurgeTime(timeOf(millis(m.Record.CreatedAt)), timeOf(millis(m.Record.EndedAt)), keep))
}

func hiddenMark(hidden bool) string {
	if hidden {
		return "h"
	}
	return ""
}

// fields returns the metadata to write, in pairs, and the text to keep beside it.
// Fields that this release does not know stay as they are.
func (e *partitionScan) fields(m *store.RunRepair, run, route string) (fields []any, besides string) {
	rec := &m.Record
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, name, value)
		}
	}
	was := e.metaOf(run)
	field("H", e.headerOf(rec, was)) // first, where it is found at once
	field("p", placedAt(rec))
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
		field("V", packPermits(rec.Permits, rec.Whole, rec.CalledOff)+was["V"][min(3, len(was["V"])):])
	}
	if rec.Chain != rec.Run {
		field("h", short(rec.Chain))
	}
	packed, beside := e.describing(rec, wid)
	return append(fields, packed...), beside
}

// headerOf returns the header of a run. Whether there are unread items, the script sees; there may be
// more to do at the end of a run that was repaired.
func (e *partitionScan) headerOf(rec *store.Record, was map[string]string) string {
	h := header{
		wid: digestOf(rec.WorkflowID), queueState: rec.QueueState, fence: store.Fence{Epoch: rec.Fence.Epoch}, last: rec.Last, seq: rec.Seq,
		status: rec.Status, flags: hasRest, recoveries: rec.Recoveries, frames: rec.N,
	}
	for _, f := range e.snap.Runs[rec.Run].Frames {
		h.bytes += len(f)
	}
	if rec.QueueState == store.StateOwned {
		h.fence.Token = rec.Fence.Token
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

// placedAt returns what belongs to the place of a run. What belongs to the others, the
// script makes.
func placedAt(rec *store.Record) string {
	switch rec.QueueState {
	case store.StateOwned:
		return sessionCode(rec.Owner)
	case store.StateEnded:
		return number(millis(rec.EndedAt))
	}
	return ""
}

// describing returns the fields that users have set on a run, and the text to keep
// beside them.
func (e *partitionScan) describing(rec *store.Record, wid string) (fields []any, besides string) {
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

// RepairName sets what a workflow id leads to, if it leads to what it was seen to.
func (e *partitionScan) RepairName(ctx context.Context, m store.NameRepair) (bool, error) {
	wid := widKey(m.WorkflowID)
	seen := e.snap.Lines[m.WorkflowID]
	args := []any{
		e.s.at(), wid, short(e.snap.Active[m.WorkflowID]), short(e.snap.LastEnded[m.WorkflowID]), len(seen),
		short(m.Active), short(m.Last), short(m.Run), string(m.Reason), string(m.By),
	}
	for _, run := range slices.Concat(seen, m.Line) {
		args = append(args, short(run))
	}
	c := &call{script: scriptRepairName, p: e.p, keys: []string{e.p.active(), e.p.latest(), e.p.line(wid)}, args: args}
	if err := e.s.do(ctx, c); err != nil {
		return false, fmt.Errorf("repair workflow id %q: %w", m.WorkflowID, err)
	}
	return c.answer().word() == "ok", nil
}

// Forget removes what is kept under the id of a run that does not exist.
func (e *partitionScan) Forget(ctx context.Context, id event.RunID) (bool, error) {
	p, run := e.p, short(id)
	keys := []string{p.meta(run), p.hidden(run), p.log(run), p.seen(run), p.chains(), p.inbox(run), p.stepData(run), p.extra(run), p.audit(run)}
	entries := slices.Clone(e.entries[run])
	for _, names := range []struct {
		key string
		of  map[string]string
	}{{p.active(), e.active.Val()}, {p.latest(), e.latest.Val()}} {
		for _, wid := range sortedKeys(names.of) {
			if names.of[wid] == run {
				entries = append(entries, entry{names.key, wid})
			}
		}
	}
	for _, wid := range sortedKeys(e.lines) {
		if slices.Contains(e.lines[wid].Val(), run) {
			entries = append(entries, entry{p.line(wid), run})
		}
	}
	args := []any{run, len(entries)}
	for _, at := range entries {
		keys, args = append(keys, at.key), append(args, at.member)
	}
	keys = append(keys, e.keysOfStreams(run)...)
	c := &call{script: scriptForget, p: p, keys: keys, args: args}
	if err := e.s.do(ctx, c); err != nil {
		return false, fmt.Errorf("forget run %s: %w", id, err)
	}
	return c.answer().word() == "ok", nil
}
