package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/repairtest"
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

// TestREC8_RepairsLimits proves that a repair restores the permits and the limiter queues from the
// runs after a key of limits was lost, overwritten or changed. No permit is lost permanently, and
// no permit is held twice.
func TestREC8_RepairsLimits(t *testing.T) {
	cases := map[string]func(s *limitScene){
		"a permit too many is counted": func(s *limitScene) { s.check(s.client.HSet(s.ctx, s.limits(), "gpu\x00", "3 6 0").Err()) },
		"no permits are counted":       func(s *limitScene) { s.check(s.client.HDel(s.ctx, s.limits(), "gpu\x00").Err()) },
		"a count cannot be read":       func(s *limitScene) { s.check(s.client.HSet(s.ctx, s.limits(), "gpu\x00", "x").Err()) },
		"an idle limit is counted":     func(s *limitScene) { s.check(s.client.HSet(s.ctx, s.limits(), "other\x00", "1 0 0").Err()) },
		"a run has left its line": func(s *limitScene) {
			run, line, place := s.anyWaiting()
			s.client.ZRem(s.ctx, s.waiting(line), place+run)
		},
		"a run is in another line": func(s *limitScene) {
			run, _, place := s.anyWaiting()
			s.client.ZAdd(s.ctx, s.waiting("other"), redis.Z{Member: place + run})
		},
		"a run is in its line twice": func(s *limitScene) {
			run, line, _ := s.anyWaiting()
			s.client.ZAdd(s.ctx, s.waiting(line), redis.Z{Member: "00000000000001" + run})
		},
		"a holder is in a line": func(s *limitScene) {
			_, line, _ := s.anyWaiting()
			s.client.ZAdd(s.ctx, s.waiting(line), redis.Z{Member: "00000000000001" + short(s.held[0].Run)})
		},
		"a line of nobody is kept": func(s *limitScene) {
			s.client.ZAdd(s.ctx, s.kept("gpu\x00"), redis.Z{Score: -9, Member: "00000000000001" + queueClosed + "other"})
		},
		"a line of nobody is ready": func(s *limitScene) {
			s.client.ZAdd(s.ctx, s.ready(routeCode(limitRoutes[0])), redis.Z{Score: -9, Member: "00000000000001" + lineMark + "other"})
		},
		"a line of nobody has a time": func(s *limitScene) {
			s.client.ZAdd(s.ctx, s.timers(), redis.Z{Score: 1, Member: lineMark + "other"})
		},
		"a holder has lost its permits":  func(s *limitScene) { s.client.HSet(s.ctx, s.metaOfHolder(), "V", "000") },
		"a holder has lost its uses":     func(s *limitScene) { s.client.HDel(s.ctx, s.metaOfHolder(), "U") },
		"a holder has lost its metadata": func(s *limitScene) { s.client.Del(s.ctx, s.metaOfHolder()) },
		"a waiting run has permits": func(s *limitScene) {
			run, _, place := s.anyWaiting()
			s.client.HSet(s.ctx, s.meta(run), "V", "100"+place)
		},
		"a waiting run has lost its place": func(s *limitScene) {
			run, _, _ := s.anyWaiting()
			s.client.HSet(s.ctx, s.meta(run), "V", "000")
		},
		"a waiting run has lost its metadata": func(s *limitScene) { run, _, _ := s.anyWaiting(); s.client.Del(s.ctx, s.meta(run)) },
		"a whole run has lost its metadata":   func(s *limitScene) { s.client.Del(s.ctx, s.meta(short(s.keeps))) },
		"a flow counts a run too many":        func(s *limitScene) { s.client.HSet(s.ctx, s.fairKeys(), s.anyFairKey(), "9 1 0") },
		"a flow counts nobody":                func(s *limitScene) { s.client.HSet(s.ctx, s.fairKeys(), routeCode(limitRoutes[0])+":7", "2 1 0") },
		"a key begins again before its runs": func(s *limitScene) {
			for _, fairKey := range s.st.must(s.t, s.client.HKeys(s.ctx, s.fairKeys())) {
				s.client.Del(s.ctx, s.passes(fairKey))
			}
		},
		"a run has lost its fair place": func(s *limitScene) {
			member := s.st.must(s.t, s.client.ZRange(s.ctx, s.ready(routeCode(limitRoutes[0])), -1, -1))[0]
			s.client.HSet(s.ctx, s.meta(member[orderDigits:]), "V", "000")
		},
		"a run has lost its fair key": func(s *limitScene) { run, _, _ := s.anyWaiting(); s.client.HDel(s.ctx, s.meta(run), "f") },
	}
	for _, kind := range []string{"L", "Y", "P", "F", "Q", "X"} {
		for _, how := range []string{"lost", "overwritten"} {
			cases[kind+" "+how] = func(s *limitScene) { s.damage(kind + " " + how) }
		}
	}
	repairtest.Each(t, cases, func(t *testing.T, damage func(s *limitScene)) {
		t.Parallel()
		s := newLimitScene(t, redistest.Shared(t).Client(t))
		damage(s)
		s.repairs()
		s.drains()
	})
	repairtest.Each(t, cases, func(t *testing.T, damage func(s *limitScene)) {
		t.Parallel()
		s := newLimitScene(t, redistest.Shared(t).Client(t))
		damage(s)
		s.claimsAndEnds() // the repair must also correct the results of these operations
		s.mayRepair()
		s.drains()
	})
}

func TestREC8_RepairsLimitsOnACluster(t *testing.T) {
	s := newLimitScene(t, redistest.SharedCluster(t).Client(t))
	s.damage("L lost")
	s.damage("P lost")
	s.repairs()
	s.drains()
}

// TestREC10_ALostOrOverwrittenKeyOfLimitsKeepsNoUnlimitedRun proves that runs without limits are
// claimed and completed while keys of limits are lost or damaged.
func TestREC10_ALostOrOverwrittenKeyOfLimitsKeepsNoUnlimitedRun(t *testing.T) {
	for _, kind := range []string{"L", "K", "Y", "P", "F", "Q", "X"} {
		for _, how := range []string{"lost", "overwritten", "filled with other text"} {
			if strings.Contains("PFX", kind) && how == "filled with other text" {
				continue // scripts do not read text from the members of these sets
			}
			t.Run(kind+" "+how, func(t *testing.T) {
				keepsNoUnlimitedRun(t, func(s *limitScene) { s.damage(kind + " " + how) })
			})
		}
	}
}

// TestREC10_NoTextInTheKeysOfLimitsStopsAClaim proves that runs without limits are claimed whatever
// text the keys of limits contain.
func TestREC10_NoTextInTheKeysOfLimitsStopsAClaim(t *testing.T) {
	always := func(text string) func(string) string { return func(string) string { return text } }
	for name, c := range map[string]struct {
		kind string
		edit func(was string) string
	}{
		"a number for a configuration":        {"K", always("7")},
		"a configuration without its numbers": {"K", always(`{"AtOnce":"many","i":[1],"b":{},"Waiting":"few","Refuse":1,"Paused":"no"}`)},
		"a mode that there is not":            {"Y", func(was string) string { return "7" + was[1:] }},
		"a priority that is no number":        {"Y", func(was string) string { f := strings.SplitN(was, " ", 4); return f[0] + " " + f[1] + " x " + f[3] }},
		"counts that are no numbers":          {"L", always("many of them")},
	} {
		t.Run(name, func(t *testing.T) {
			keepsNoUnlimitedRun(t, func(s *limitScene) {
				for _, key := range s.keysOf(c.kind) {
					for field, was := range s.client.HGetAll(s.ctx, key).Val() {
						s.check(s.client.HSet(s.ctx, key, field, c.edit(was)).Err())
					}
				}
			})
		})
	}
}

// keepsNoUnlimitedRun fails the test unless a run without limits is claimed after the damage.
func keepsNoUnlimitedRun(t *testing.T, damage func(s *limitScene)) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	for _, r := range s.held {
		s.end(r) // admits limiter queues
	}
	damage(s)
	for n := range 200 { // entries of missing queues, which come before the run in the ready set
		s.client.ZAdd(s.ctx, s.ready(routeCode(limitRoutes[0])), redis.Z{Score: -9, Member: fmt.Sprintf("%014x~other", n)})
	}
	for _, route := range limitRoutes {
		s.start(route, 1, false, "gpu") // the run joins a limiter queue whose record may be damaged
	}
	s.start(limitRoutes[0], 1, false)
	unlimited := slices.Max(slices.Collect(maps.Keys(s.logs)))
	var got []event.RunID
	for range 5 {
		for _, r := range s.claim() {
			got = append(got, r.Run)
			s.end(r)
		}
	}
	if !slices.Contains(got, unlimited) {
		t.Errorf("claimed %v, want %s among them", got, unlimited)
	}
	_, err := s.st.Heartbeat(s.ctx, 0, s.worker)
	s.check(err)
}

// TestREC8_FindsAConfigurationOfALimitThatCannotBeRead proves that a limit whose configuration
// cannot be decoded restricts no run, that fsck reports it, and that the limit applies after it is
// set again.
func TestREC8_FindsAConfigurationOfALimitThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	found := func() (what []string) {
		t.Helper()
		report, err := fsck.Repair(s.ctx, s.st, fsck.Options{DryRun: true})
		s.check(err)
		for _, f := range report.Remaining {
			if strings.Contains(f.What, "is configured as") {
				what = append(what, f.What)
			}
		}
		return what
	}
	if got := found(); len(got) > 0 {
		t.Fatalf("found in a healthy store: %q", got)
	}
	s.check(s.client.HSet(s.ctx, s.limitConfigs(), "cgpu\x00", "x", "sgpu\x00", "[[").Err())
	if got := found(); len(got) != 2 || !strings.Contains(got[0]+got[1], `limit gpu is configured as "[["`) {
		t.Errorf("found %q, want both configurations of gpu", got)
	}
	for _, asDefault := range []bool{false, true} {
		s.check(s.st.SetLimits(s.ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Default: asDefault, Config: store.LimitConfig{AtOnce: 2}}}))
	}
	if got := found(); len(got) > 0 {
		t.Errorf("found after it was set: %q", got)
	}
}

// TestREC8_LeavesLimitsAloneThatAreAtWork proves that a repair finds no defect of limits while runs
// get permits and give them back.
func TestREC8_LeavesLimitsAloneThatAreAtWork(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	stop, worked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(worked)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if len(s.logs) < 30 {
				s.start(limitRoutes[n%2], 1+n%2, false, "gpu")
			}
			for _, r := range s.held {
				s.end(r)
			}
			s.held = slices.DeleteFunc(s.claim(), func(r store.ClaimedRun) bool { return r.Run == s.keeps })
		}
	}()
	for range 5 {
		report, err := fsck.Repair(s.ctx, s.st, fsck.Options{})
		if err != nil || len(report.Fixes) > 0 || len(report.Remaining) > 0 {
			t.Errorf("a repair of a healthy store: %v, %+v", err, report)
		}
	}
	close(stop)
	<-worked
}

// TestLimits_PartsThatNobodyUsesAreForgotten proves that a part of a limit with a rate is kept
// until the rate permits the next weight. It is removed then if no run uses it.
func TestLimits_PartsThatNobodyUsesAreForgotten(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	s.check(s.st.SetLimits(s.ctx, 0, []store.SetLimit{{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 1, Burst: 1}}}))
	use := func(key string) {
		t.Helper()
		l := storetest.NewLog(&s.ids, s.clock, s.ids.Run(s.clock.Now(), 0), event.Spec{Workflow: limitRoutes[0].Workflow, Queue: "default"})
		c := l.Create()
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "crm", Key: key}, Weight: 1}}
		s.logs[l.Run] = l
		got, err := s.st.Create(s.ctx, []store.Create{c})
		s.check(cmp.Or(err, got[0].Err))
		for _, r := range s.claim() {
			s.end(r)
		}
	}
	for n := range 100 {
		use(fmt.Sprintf("once-%d", n))
	}
	s.clock.Advance(time.Minute)
	for n := range 400 {
		use(fmt.Sprintf("now-%d", n%20))
		if n%20 == 19 {
			s.clock.Advance(time.Minute)
		}
	}
	if n := s.client.HLen(s.ctx, s.limits()).Val(); n > 60 {
		t.Errorf("%d parts are kept, of which 22 are in use", n)
	}
}

func TestREC8_ANewProcessFindsNothingWrongWithRunsThatWaitForALimit(t *testing.T) {
	test := func(client redis.UniversalClient) func(t *testing.T) {
		return func(t *testing.T) {
			s := newLimitScene(t, client)
			other, err := New(client, Config{Clock: s.clock, Prefix: s.st.cfg.Prefix, Partitions: 1})
			s.check(err)
			report, err := fsck.Repair(s.ctx, other, fsck.Options{DryRun: true})
			s.check(err)
			if len(report.Remaining) > 0 || report.Runs == 0 {
				t.Errorf("%d runs, findings: %v; want none", report.Runs, report.Remaining)
			}
		}
	}
	t.Run("server", test(redistest.Shared(t).Client(t)))
	t.Run("cluster", test(redistest.SharedCluster(t).Client(t)))
}
