package redisstore

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// What ReadPartition makes of the values of a partition. It is lenient where Inspect is
// not.

func newSnapshot() *store.Snapshot {
	return &store.Snapshot{
		Runs:      map[event.RunID]*store.RunState{},
		Active:    map[string]event.RunID{},
		LastEnded: map[string]event.RunID{},
		Lines:     map[string][]event.RunID{},
		Gathering: map[string]event.RunID{},
		Seen:      map[event.RunID]map[event.ItemID]time.Time{},
		Kept:      map[event.RunID][]event.ItemID{},
		Ready:     map[store.Route][]event.RunID{},
		Timers:    map[event.RunID]time.Time{},
		Leases:    map[store.SessionID]store.Lease{},
		Owned:     map[store.SessionID][]event.RunID{},
		Unread:    map[store.SessionID][]event.RunID{},
		Wakes:     map[store.Route]bool{},
		Purges:    map[event.RunID]time.Time{},
		Streams:   map[event.RunID]map[string]store.StreamState{},
		Limits:    map[store.LimitID]store.LimitState{},
		Flows:     map[store.FlowID]int{},
		Troubles:  map[string]store.TroubleState{},
	}
}

// show fills the snapshot, and notes where each run stands.
func (e *partitionState) show() {
	e.snap, e.entries, e.named = newSnapshot(), map[string][]entry{}, map[string][]entry{}
	e.indexed = map[string][]indexed{}
	e.snap.Now = e.s.Clock().Now()
	wids := map[string]string{} // by their keys
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
	e.showGathering(e.snap)
	e.showReady()
	e.showWork()
	e.showIndexes()
	e.showSent()
	e.showWaiting()
	e.scanStreams()
	e.showGroups()
	e.scanLabels()
}

// noteNames notes what workflow ids lead to each run.
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

// judged leaves out runs that are not judged.
func (e *partitionState) judged(runs []string) []string {
	return slices.DeleteFunc(runs, func(run string) bool { return e.unread[run] })
}
