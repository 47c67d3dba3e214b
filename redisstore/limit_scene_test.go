package redisstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// limitScene is a partition with runs that hold permits and runs that wait for permits. Limit gpu
// permits two runs at once, and runs of two routes hold both permits. Limit disk permits one run,
// and a parked run keeps its permit.
type limitScene struct {
	*partition

	t      *testing.T
	ctx    context.Context
	st     *Store
	client redis.UniversalClient
	clock  *storetest.Clock
	ids    storetest.IDs
	logs   map[event.RunID]*storetest.Log
	held   []store.ClaimedRun // runs that hold a permit of gpu
	keeps  event.RunID        // parked run that holds the permit of disk
	worker store.SessionID
}

var limitRoutes = []store.Route{{Queue: "default", Workflow: "limit.a"}, {Queue: "default", Workflow: "limit.b"}}

func newLimitScene(t *testing.T, client redis.UniversalClient) *limitScene {
	t.Helper()
	s := &limitScene{t: t, ctx: t.Context(), client: client, clock: storetest.NewClock(), logs: map[event.RunID]*storetest.Log{}, worker: "wses_1"}
	var err error
	if s.st, err = New(client, Config{Clock: s.clock, Prefix: redistest.Prefix(), Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	sweep(t, client, s.st)
	s.partition = s.st.parts[0]
	s.check(s.st.OpenSession(s.ctx, store.Session{ID: s.worker, Worker: "w", TTL: time.Hour, Routes: limitRoutes, Fingerprint: "v1"}))
	s.check(s.st.SetLimits(s.ctx, 0, []store.SetLimit{
		{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 2}}, {LimitID: store.LimitID{Name: "disk"}, Config: store.LimitConfig{AtOnce: 1}},
	}))
	s.start(limitRoutes[0], 1, true, "disk")
	kept := s.claim()[0]
	l := s.logs[kept.Run]
	c := l.Commit(kept.Fence, l.Sleep(time.Time{})...)
	c.Effect, c.Status = store.EffectPark, event.StatusSleeping
	s.commit(l, c)
	s.keeps = kept.Run
	for n := range 8 {
		s.start(limitRoutes[n%2], 1+n%2*(n/6), false, "gpu")
	}
	s.start(limitRoutes[0], 1, false, "disk", "gpu")
	s.start(limitRoutes[1], 1, false)
	for _, r := range s.claim() {
		if s.uses(r.Run) == "gpu" {
			s.held = append(s.held, r)
			continue
		}
		s.end(r)
	}
	if len(s.held) != 2 {
		t.Fatalf("%d runs have gpu, want 2", len(s.held))
	}
	for n := range 4 { // these runs have fairness keys and wait only for a worker
		s.start(limitRoutes[n%2], 1, false)
	}
	return s
}

func (s *limitScene) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *limitScene) start(route store.Route, weight int, whole bool, limits ...string) {
	s.t.Helper()
	spec := event.Spec{Workflow: route.Workflow, Queue: route.Queue, Whole: whole}
	var uses []store.Use
	for _, name := range limits {
		spec.Uses = append(spec.Uses, event.Use{Limit: name, Weight: weight})
		uses = append(uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: weight})
	}
	if !whole {
		spec.Fair, spec.Share = string('a'+rune(len(s.logs)%3)), 1+len(s.logs)%2
	}
	l := storetest.NewLog(&s.ids, s.clock, s.ids.Run(s.clock.Now(), 0), spec)
	c := l.Create()
	c.Uses, c.Whole, c.Fair, c.Share = uses, whole, spec.Fair, spec.Share
	got, err := s.st.Create(s.ctx, []store.Create{c})
	s.check(cmp.Or(err, got[0].Err))
	s.logs[l.Run] = l
}

func (s *limitScene) uses(run event.RunID) string {
	var names []string
	for _, u := range s.logs[run].Spec.Uses {
		names = append(names, u.Limit)
	}
	return strings.Join(names, " ")
}

func (s *limitScene) claim() []store.ClaimedRun {
	s.t.Helper()
	got, err := s.st.Claim(s.ctx, store.Claim{Session: s.worker, Token: s.ids.Token(), Routes: limitRoutes, Max: 20})
	s.check(err)
	return got.Runs
}

func (s *limitScene) commit(l *storetest.Log, c store.Commit) {
	s.t.Helper()
	got, err := s.st.Commit(s.ctx, []store.Commit{c})
	s.check(cmp.Or(err, got[0].Err))
	l.Accept(c)
}

// end ends an owned run by a commit. It does nothing if another session has taken the run from its
// owner.
func (s *limitScene) end(r store.ClaimedRun) {
	s.t.Helper()
	l := s.logs[r.Run]
	c := l.Commit(r.Fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status, c.Progress = store.EffectFinish, event.StatusCompleted, true
	got, err := s.st.Commit(s.ctx, []store.Commit{c})
	if err == nil && got[0].Err == store.ErrFenced {
		return
	}
	s.check(cmp.Or(err, got[0].Err))
	l.Accept(c)
	delete(s.logs, r.Run)
}

// claimsAndEnds claims runs, and ends these runs and all runs in held.
func (s *limitScene) claimsAndEnds() {
	s.t.Helper()
	s.held = append(s.held, s.claim()...)
	for _, r := range s.held {
		s.end(r)
	}
	s.held = nil
}

// repairs repairs the store, and fails the test if there was no defect or if a defect remains.
func (s *limitScene) repairs() {
	s.t.Helper()
	if s.mayRepair() == 0 {
		s.t.Error("a repair finds nothing")
	}
}

// mayRepair repairs the store, and fails the test if a defect remains. It returns the number of
// fixes. The number may be 0 after claims, because a claim itself removes entries of missing
// limiter queues, and because passes of fairness keys matter only for waiting runs.
func (s *limitScene) mayRepair() int {
	s.t.Helper()
	s.st.names = newNames() // the cache is empty in a new process
	dry, err := fsck.Repair(s.ctx, s.st, fsck.Options{DryRun: true})
	s.check(err)
	for _, f := range dry.Fixes {
		if f.Action == "" {
			s.t.Errorf("nothing is to be done about %+v", f)
		}
	}
	report, err := fsck.Repair(s.ctx, s.st, fsck.Options{})
	s.check(err)
	if len(report.Remaining) > 0 {
		s.t.Errorf("after the repair: %+v", report.Remaining)
	}
	if report, err = fsck.Repair(s.ctx, s.st, fsck.Options{}); err != nil || len(report.Fixes) > 0 {
		s.t.Errorf("a second repair: %+v, %v", report, err)
	}
	snap, err := s.st.Inspect(s.ctx)
	s.check(err)
	if findings := fsck.Check(snap); len(findings) > 0 {
		s.t.Errorf("check: %v", findings)
	}
	return len(dry.Fixes)
}

// drains executes all runs until they have ended. It fails the test if the runs with permits exceed
// a limit, or if a run never gets its permits.
func (s *limitScene) drains() {
	s.t.Helper()
	owned := map[event.RunID]store.ClaimedRun{}
	for _, r := range s.held {
		rec, err := s.st.Load(s.ctx, []store.Load{{Run: r.Run}})
		s.check(err)
		if rec[0].Record.Fence == r.Fence {
			owned[r.Run] = r
		}
	}
	_, err := s.st.Deliver(s.ctx, store.Deliver{Run: s.keeps, Item: store.Item{ID: s.ids.Item(), Body: []byte(`""`)}, Urgent: true})
	s.check(err)
	for range 2 * len(s.logs) {
		for _, r := range s.claim() {
			owned[r.Run] = r
		}
		held := map[string]int{"disk": 1}
		if s.logs[s.keeps] == nil {
			held["disk"] = 0
		}
		for run := range owned {
			for _, u := range s.logs[run].Spec.Uses {
				if run != s.keeps {
					held[u.Limit] += u.Weight
				}
			}
		}
		if held["gpu"] > 2 || held["disk"] > 1 {
			s.t.Fatalf("held at once: %v", held)
		}
		if len(owned) == 0 {
			break
		}
		run := slices.Min(slices.Collect(maps.Keys(owned)))
		if l := s.logs[run]; run == s.keeps {
			loaded, err := s.st.Load(s.ctx, []store.Load{{Run: run, Inbox: true}})
			s.check(err)
			items := loaded[0].Inbox
			c := l.Commit(owned[run].Fence, append(l.Receive(items...), l.End(event.StatusCompleted)...)...)
			c.Effect, c.Status, c.Consume, c.ConsumeLast = store.EffectFinish, event.StatusCompleted, len(items), items[len(items)-1].ID
			s.commit(l, c)
			delete(s.logs, run)
		} else {
			s.end(owned[run])
		}
		delete(owned, run)
	}
	if len(s.logs) > 0 {
		s.t.Errorf("%d runs never had their permits: %v", len(s.logs), slices.Collect(maps.Keys(s.logs)))
	}
}

// keysOf returns the keys of the partition that begin with prefix.
func (s *limitScene) keysOf(prefix string) []string {
	s.t.Helper()
	keys, _, err := s.st.keysOf(s.ctx, s.partition)
	s.check(err)
	var names []string
	switch prefix {
	case "P":
		for _, id := range keys.waiting {
			names = append(names, s.waiting(id))
		}
	case "F":
		for _, use := range keys.kept {
			names = append(names, s.kept(use))
		}
	case "X":
		for _, fairKey := range keys.fairKeys {
			names = append(names, s.passes(fairKey))
		}
	case "r":
		for _, route := range keys.routes {
			names = append(names, s.ready(route))
		}
	default:
		names = []string{s.tag + prefix}
	}
	return names
}

func (s *limitScene) anyFairKey() string {
	s.t.Helper()
	return s.st.must(s.t, s.client.HKeys(s.ctx, s.fairKeys()))[0]
}

func (s *limitScene) damage(name string) {
	s.t.Helper()
	prefix, how, _ := strings.Cut(name, " ")
	keys := s.keysOf(prefix)
	if len(keys) == 0 {
		s.t.Fatalf("there is no key %s", prefix)
	}
	for _, key := range keys {
		if how == "filled with other text" {
			for _, field := range s.st.must(s.t, s.client.HKeys(s.ctx, key)) {
				s.check(s.client.HSet(s.ctx, key, field, "1 0 0 00000000000001 r [[").Err())
			}
			continue
		}
		existed, err := s.client.Del(s.ctx, key).Result()
		s.check(err)
		if existed == 0 && prefix != "t" && prefix != "r" {
			s.t.Fatalf("there is no key %s", key)
		}
		if how == "overwritten" {
			s.check(s.client.Set(s.ctx, key, "x", 0).Err())
		}
	}
}

// metaOfHolder returns the metadata key of a run that holds a permit of gpu.
func (s *limitScene) metaOfHolder() string { return s.meta(short(s.held[0].Run)) }

// anyWaiting returns a run that waits for permits, the ID of its limiter queue, and its position.
func (s *limitScene) anyWaiting() (run, line, place string) {
	s.t.Helper()
	for _, id := range s.st.must(s.t, s.st.client.HKeys(s.ctx, s.limiterQueues())) {
		member := s.client.ZRange(s.ctx, s.waiting(id), 0, 0).Val()[0]
		return member[orderDigits:], id, member[:orderDigits]
	}
	s.t.Fatal("nobody waits")
	return "", "", ""
}

func (s *Store) must(t *testing.T, c *redis.StringSliceCmd) []string {
	t.Helper()
	all, err := c.Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
