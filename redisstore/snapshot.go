package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The following functions build the result of Inspect from the values of a partition.

const (
	// orderDigits is the length of the position that precedes a run in a ready set, or an outbox
	// record in the set by due time.
	orderDigits = 14
	// runDigits is the length of a short run ID.
	runDigits = 26
	// sessionDigits is the length of the code of a session.
	sessionDigits = 16
	// kept is added to the score of an item ID that is remembered until Confirm.
	kept = 4e15
)

// show adds the contents of a view to a snapshot.
func (s *Store) show(ctx context.Context, v *view, snap *store.Snapshot) error {
	for session, state := range v.sessions {
		s.names.learnSession(session, store.SessionID(state.Val()["i"]))
	}
	for code, name := range v.routes.Val() {
		s.names.learnRoute(code, parseRoute(name))
	}
	wids := map[string]string{} // workflow IDs by key
	for run, r := range v.runs {
		if err := s.showRun(ctx, v, run, r, wids, snap); err != nil {
			return err
		}
	}
	v.showNames(wids, snap)
	v.showCollecting(snap)
	if err := v.showStreams(snap); err != nil {
		return err
	}
	s.showRoutes(v, snap)
	v.showSessions(snap)
	for _, z := range v.timers.Val() {
		run, _ := z.Member.(string)
		if strings.HasPrefix(run, lineMark) {
			continue
		}
		snap.Timers[long(run)] = timeOf(int64(z.Score))
	}
	if err := v.showOutbox(snap); err != nil {
		return err
	}
	known := func(code string) store.Route { route, _ := s.names.route(code); return route }
	if err := s.showLimits(v, snap, known); err != nil {
		return err
	}
	v.showFailureGroups(snap)
	v.showLabels(snap)
	v.showEntries(snap)
	for _, z := range slices.Concat(v.purges.Val(), v.held.Val()) {
		run, _ := z.Member.(string)
		snap.Purges[long(run)] = timeOf(int64(z.Score))
	}
	return nil
}

func (s *Store) showRun(ctx context.Context, v *view, run string, r reading, wids map[string]string, snap *store.Snapshot) error {
	v.showSeen(run, snap)
	entries, err := auditOf(long(run), v.audit[run].Val())
	if err != nil {
		return err
	}
	snap.Audit = append(snap.Audit, entries...)
	hidden := len(r.meta.Val()) == 0
	if hidden {
		r.meta = v.hidden[run]
	}
	if len(r.meta.Val()) == 0 {
		return nil // the ID of a chain whose first run was purged
	}
	loaded, err := s.loaded(ctx, v.p, long(run), r)
	if err != nil {
		return err
	}
	if loaded == nil {
		return fmt.Errorf("%w: the owner of run %s has no session", errDamaged, long(run))
	}
	snap.Runs[long(run)] = &store.RunState{
		Record: loaded.Record, Frames: loaded.Frames, Inbox: loaded.Inbox, Hidden: hidden,
		Incompatible: v.incompatible(r.meta.Val()),
	}
	wids[r.meta.Val()["w"]] = loaded.Record.WorkflowID
	return nil
}

// incompatible returns the live sessions that have blocked the run with the given metadata.
func (v *view) incompatible(meta map[string]string) []store.SessionID {
	var all []store.SessionID
	for codes := range slices.Chunk([]byte(meta["F"]), sessionDigits) {
		if s := v.sessions[string(codes)]; s != nil && s.Val()["i"] != "" && s.Val()["r"] == "" {
			all = append(all, store.SessionID(s.Val()["i"]))
		}
	}
	slices.Sort(all)
	return all
}

func (v *view) showSeen(run string, snap *store.Snapshot) {
	seen := v.seen[run].Val()
	if len(seen) == 0 {
		return
	}
	at, chain := map[event.ItemID]time.Time{}, long(run)
	for _, z := range seen {
		member, _ := z.Member.(string)
		id := event.ItemID(member)
		if z.Score >= kept {
			snap.Kept[chain] = append(snap.Kept[chain], id)
			z.Score -= kept
		}
		at[id] = timeOf(int64(z.Score))
	}
	slices.Sort(snap.Kept[chain])
	snap.Seen[chain] = at
}

// showOutbox adds the outbox records of all senders, in the order in which they were written.
func (v *view) showOutbox(snap *store.Snapshot) error {
	type placed struct {
		order  string
		record store.Outgoing
	}
	var all []placed
	for run, sent := range v.sent {
		for id, packed := range sent.Val() {
			order, record, ok := unpackSent(packed)
			if !ok {
				return fmt.Errorf("%w: record %s in the outbox of run %s is %q", errDamaged, id, long(run), packed)
			}
			record.From, record.ID, record.Body = long(run), event.ItemID(id), []byte(v.bodies[run].Val()[id])
			all = append(all, placed{order, record})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.order, b.order) })
	for _, one := range all {
		snap.Outbox = append(snap.Outbox, one.record)
	}
	return nil
}

// unpackSent decodes the state of an outbox record: its position and its phase.
func unpackSent(packed string) (order string, o store.Outgoing, ok bool) {
	words := strings.SplitN(packed, " ", 4)
	if len(words) != 4 {
		return "", o, false
	}
	o.To, o.Phase, o.Since = event.RunID(words[3]), store.Phase(parseNumber(words[1])), timeOf(parseNumber(words[2]))
	return words[0], o, true
}

// lastEnded returns the last ended run of each workflow ID, by key. It omits the empty values that
// remain after a deletion.
func (v *view) lastEnded() map[string]string {
	last := maps.Clone(v.latest.Val())
	delete(last, "")
	return last
}

func (v *view) showNames(wids map[string]string, snap *store.Snapshot) {
	name := func(key string) string {
		if wid, ok := wids[key]; ok {
			return wid
		}
		return key // the run is missing, which fsck reports
	}
	for key, run := range v.active.Val() {
		snap.Active[name(key)] = long(run)
	}
	for key, run := range v.lastEnded() {
		snap.LastEnded[name(key)] = long(run)
	}
	for key, line := range v.lines {
		if len(line.Val()) > 0 {
			snap.Lines[name(key)] = longAll(line.Val())
		}
	}
}

func (s *Store) showRoutes(v *view, snap *store.Snapshot) {
	for code, ready := range v.ready {
		route, _ := s.names.route(code)
		for _, member := range ready.Val() {
			if isLine(member) {
				continue
			}
			snap.Ready[route] = append(snap.Ready[route], long(member[min(orderDigits, len(member)):]))
		}
	}
	for code := range v.wakes.Val() {
		route, _ := s.names.route(code)
		snap.Wakes[route] = true
	}
}

func (v *view) showSessions(snap *store.Snapshot) {
	expires := map[string]redis.Z{}
	for _, z := range v.leases.Val() {
		code, _ := z.Member.(string)
		expires[code] = z
	}
	for code, state := range v.sessions {
		m := state.Val()
		id := store.SessionID(m["i"])
		snap.Leases[id] = store.Lease{
			Session: id, Partition: v.p.number, Worker: m["w"], Fingerprint: m["f"], Expires: timeOf(int64(expires[code].Score)),
			TTL: time.Duration(parseNumber(m["l"])) * time.Millisecond, Recovering: m["r"] != "",
		}
		if owned := longAll(v.owned[code].Val()); len(owned) > 0 {
			slices.Sort(owned)
			snap.Owned[id] = owned
		}
		var unread []event.RunID
		for run := range v.unreadRuns[code].Val() {
			unread = append(unread, long(run))
		}
		if len(unread) > 0 {
			slices.Sort(unread)
			snap.Unread[id] = unread
		}
	}
}

// The following functions build the result of ReadPartition from the values of a partition. They
// accept damaged values, for which Inspect returns an error.

func newSnapshot() *store.Snapshot {
	return &store.Snapshot{
		Runs:          map[event.RunID]*store.RunState{},
		Active:        map[string]event.RunID{},
		LastEnded:     map[string]event.RunID{},
		Lines:         map[string][]event.RunID{},
		Collecting:    map[string]event.RunID{},
		Seen:          map[event.RunID]map[event.ItemID]time.Time{},
		Kept:          map[event.RunID][]event.ItemID{},
		Ready:         map[store.Route][]event.RunID{},
		Timers:        map[event.RunID]time.Time{},
		Leases:        map[store.SessionID]store.Lease{},
		Owned:         map[store.SessionID][]event.RunID{},
		Unread:        map[store.SessionID][]event.RunID{},
		Wakes:         map[store.Route]bool{},
		Purges:        map[event.RunID]time.Time{},
		Streams:       map[event.RunID]map[string]store.StreamState{},
		Limits:        map[store.LimitID]store.LimitState{},
		FairKeys:      map[store.FairID]int{},
		FailureGroups: map[string]store.FailureGroupState{},
	}
}

// show adds the contents of the partition to the snapshot, and records the entries of each run.
func (e *partitionState) show() {
	e.snap, e.entries, e.named = newSnapshot(), map[string][]entry{}, map[string][]entry{}
	e.indexed = map[string][]indexed{}
	e.snap.Now = e.s.Clock().Now()
	wids := map[string]string{} // workflow IDs by key
	for run := range e.runs {
		e.showSeen(run)
		if e.gone(run) {
			continue
		}
		r := e.runOf(run)
		e.snap.Runs[r.Run] = r
		if wid := e.metaOf(run)["w"]; wid != "" && !hashed(wid) || r.WorkflowID != "" && widKey(r.WorkflowID) == wid {
			wids[wid] = r.WorkflowID
		}
	}
	e.showNames(wids, e.snap)
	e.noteNames()
	e.showCollecting(e.snap)
	e.showReady()
	e.showWork()
	e.showIndexes()
	e.showSent()
	e.showWaiting()
	e.scanStreams()
	e.showGroups()
	e.scanLabels()
}

// noteNames records the entries of workflow IDs that refer to each run.
func (e *partitionState) noteNames() {
	note := func(run, key, member string) { e.named[run] = append(e.named[run], entry{key, member}) }
	for wid, run := range e.active.Val() {
		note(run, e.p.active(), wid)
	}
	for wid, run := range e.latest.Val() {
		note(run, e.p.latest(), wid)
	}
	for wid, line := range e.lines {
		for _, run := range line.Val() {
			note(run, e.p.line(wid), run)
		}
	}
}

func (e *partitionState) at(run, key, member string) {
	e.entries[run] = append(e.entries[run], entry{key, member})
}

func (e *partitionState) showSeen(run string) {
	e.view.showSeen(run, e.snap)
	for _, text := range e.audit[run].Val() {
		if entries, err := auditOf(long(run), []string{text}); err == nil {
			e.snap.Audit = append(e.snap.Audit, entries...)
		}
	}
}

func (e *partitionState) showReady() {
	for _, code := range e.keys.routes {
		route := e.route(code)
		for _, member := range e.ready[code].Val() {
			run := member[min(orderDigits, len(member)):]
			if isLine(member) || e.unread[run] {
				continue
			}
			e.snap.Ready[route] = append(e.snap.Ready[route], long(run))
			e.at(run, e.p.ready(code), member)
		}
		for _, member := range e.blocked[code].Val() {
			if run := member[max(0, len(member)-runDigits):]; !e.unread[run] {
				e.at(run, e.p.blocked(code), member)
			}
		}
	}
	for code := range e.wakes.Val() {
		e.snap.Wakes[e.route(code)] = true
	}
}

func (e *partitionState) showWork() {
	expires := map[string]redis.Z{}
	for _, z := range e.leases.Val() {
		code, _ := z.Member.(string)
		expires[code] = z
	}
	for _, code := range e.keys.sessions {
		id, m := e.session(code), e.sessions[code].Val()
		if !strings.HasPrefix(string(id), unnamed) {
			e.snap.Leases[id] = store.Lease{
				Session: id, Partition: e.p.number, Worker: m["w"], Fingerprint: m["f"], Expires: timeOf(int64(expires[code].Score)),
				TTL: time.Duration(parseNumber(m["l"])) * time.Millisecond, Recovering: m["r"] != "",
			}
		}
		for _, run := range e.judged(sorted(e.owned[code].Val())) {
			e.snap.Owned[id] = append(e.snap.Owned[id], long(run))
			e.at(run, e.p.owned(code), run)
		}
		for _, run := range e.judged(sortedKeys(e.unreadRuns[code].Val())) {
			e.snap.Unread[id] = append(e.snap.Unread[id], long(run))
			e.at(run, e.p.unread(code), run)
		}
	}
}

func (e *partitionState) showIndexes() {
	type index struct {
		key  string
		all  *redis.ZSliceCmd
		into map[event.RunID]time.Time
	}
	indexes := []index{{e.p.timers(), e.timers, e.snap.Timers}, {e.p.purges(), e.purges, e.snap.Purges}, {e.p.held(), e.held, e.snap.Purges}}
	for key, all := range e.listed {
		indexes = append(indexes, index{key, all, nil})
	}
	for _, index := range indexes {
		for _, z := range index.all.Val() {
			run, _ := z.Member.(string)
			if strings.HasPrefix(run, lineMark) || e.unread[run] {
				continue
			}
			if index.into != nil {
				index.into[long(run)] = timeOf(int64(z.Score))
			}
			e.at(run, index.key, run)
			if index.into == nil {
				e.indexed[run] = append(e.indexed[run], indexed{int64(z.Score), run})
			}
		}
	}
}

// judged returns the given runs without the excluded runs.
func (e *partitionState) judged(runs []string) []string {
	return slices.DeleteFunc(runs, func(run string) bool { return e.unread[run] })
}
