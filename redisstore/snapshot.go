package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// What Inspect makes of the values of a partition.

// orderDigits is how many characters before a run in the ready set say since
// when it is ready.
const orderDigits = 14

// show adds a view to a snapshot.
func (s *Store) show(ctx context.Context, v *view, snap *store.Snapshot) error {
	for session, state := range v.sessions {
		s.names.learnSession(session, store.SessionID(state.Val()["i"]))
	}
	for code, name := range v.classes.Val() {
		s.names.learnClass(code, parseClass(name))
	}
	wids := map[string]string{} // by their keys
	for run, r := range v.runs {
		if err := s.showRun(ctx, v, run, r, wids, snap); err != nil {
			return err
		}
	}
	v.showNames(wids, snap)
	s.showClasses(v, snap)
	v.showSessions(snap)
	for _, z := range v.timers.Val() {
		run, _ := z.Member.(string)
		snap.Timers[long(run)] = timeOf(int64(z.Score))
	}
	for _, z := range v.purges.Val() {
		run, _ := z.Member.(string)
		snap.Purges[long(run)] = timeOf(int64(z.Score))
	}
	return nil
}

func (s *Store) showRun(ctx context.Context, v *view, run string, r reading, wids map[string]string, snap *store.Snapshot) error {
	if seen := v.seen[run].Val(); len(seen) > 0 {
		at := map[event.ItemID]time.Time{}
		for _, z := range seen {
			item, _ := z.Member.(string)
			at[event.ItemID(item)] = timeOf(int64(z.Score))
		}
		snap.Seen[long(run)] = at
	}
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
		return nil // the name of a chain whose first run is gone
	}
	loaded, err := s.loaded(ctx, v.p, long(run), r)
	if err != nil {
		return err
	}
	if loaded == nil {
		return fmt.Errorf("%w: the owner of run %s has no session", errDamaged, long(run))
	}
	snap.Runs[long(run)] = &store.RunState{Record: loaded.Record, Frames: loaded.Frames, Inbox: loaded.Inbox, Hidden: hidden}
	wids[r.meta.Val()["w"]] = loaded.Record.WorkflowID
	return nil
}

func (v *view) showNames(wids map[string]string, snap *store.Snapshot) {
	name := func(key string) string {
		if wid, ok := wids[key]; ok {
			return wid
		}
		return key // of a run that is not there: fsck will say so
	}
	for key, run := range v.active.Val() {
		snap.Active[name(key)] = long(run)
	}
	for key, run := range v.latest.Val() {
		snap.LastEnded[name(key)] = long(run)
	}
	for key, line := range v.lines {
		if len(line.Val()) > 0 {
			snap.Lines[name(key)] = longAll(line.Val())
		}
	}
}

func (s *Store) showClasses(v *view, snap *store.Snapshot) {
	for code, ready := range v.ready {
		class, _ := s.names.class(code)
		for _, member := range ready.Val() {
			snap.Ready[class] = append(snap.Ready[class], long(member[min(orderDigits, len(member)):]))
		}
	}
	for code := range v.wakes.Val() {
		class, _ := s.names.class(code)
		snap.Wakes[class] = true
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
			Session: id, Partition: v.p.number, Worker: m["w"], Expires: timeOf(int64(expires[code].Score)),
			TTL: time.Duration(parseNumber(m["l"])) * time.Millisecond, Recovering: m["r"] != "",
		}
		if owned := longAll(v.owned[code].Val()); len(owned) > 0 {
			slices.Sort(owned)
			snap.Owned[id] = owned
		}
		var mail []event.RunID
		for run := range v.mail[code].Val() {
			mail = append(mail, long(run))
		}
		if len(mail) > 0 {
			slices.Sort(mail)
			snap.Mail[id] = mail
		}
	}
}
