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

// without is a store whose reads of a partition exclude some runs, as if these had changed during every
// attempt to read it.
type without struct {
	*Store

	runs map[string]bool
}

func (w without) ReadPartition(ctx context.Context, partition int) (*store.PartitionState, error) {
	p := w.parts[partition]
	keys, odd, err := w.keysOf(ctx, p)
	if err != nil {
		return nil, err
	}
	logs, err := w.readLogs(ctx, p, keys.runs)
	if err != nil {
		return nil, err
	}
	e := &partitionState{s: w.Store, view: &view{p: p, keys: keys, logs: logs}, odd: odd}
	if err := e.readAll(ctx); err != nil {
		return nil, err
	}
	e.leaveOut(keys, w.runs)
	e.show()
	e.look()
	return &store.PartitionState{Snapshot: e.snap, Partial: true, Defects: e.defects, Rebuild: e.rebuild}, nil
}

// TestREC8_JudgesNoLimiterQueueByTheRunsThatWereRead proves that a repair which cannot read some runs,
// because they change too fast, finds no defect of the queues that wait for the permits of these runs.
func TestREC8_JudgesNoLimiterQueueByTheRunsThatWereRead(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	s.claim() // closes the queues that must wait
	all := map[string]bool{}
	for _, r := range s.held {
		all[short(r.Run)] = true
	}
	excluded := []map[string]bool{all}
	for _, run := range slices.Sorted(maps.Keys(s.logs)) {
		excluded = append(excluded, map[string]bool{short(run): true})
	}
	for _, runs := range excluded {
		report, err := fsck.Repair(s.ctx, without{s.st, runs}, fsck.Options{DryRun: true})
		if err != nil || len(report.Fixes) > 0 || len(report.Remaining) > 0 {
			t.Errorf("without runs %v: %v, %+v", slices.Sorted(maps.Keys(runs)), err, report)
		}
	}
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
