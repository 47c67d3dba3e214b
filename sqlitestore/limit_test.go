package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func part(name, key string) store.LimitID { return store.LimitID{Name: name, Key: key} }

// startUsing creates n runs that use a weight of 1 of each limit, and returns their logs.
func startUsing(t testing.TB, s store.Store, n int, parts ...store.LimitID) []*storetest.Log {
	t.Helper()
	var logs []*storetest.Log
	var creates []store.Create
	for range n {
		l := newLog(s.Clock())
		c := l.Create()
		for _, id := range parts {
			c.Uses = append(c.Uses, store.Use{LimitID: id, Weight: 1})
		}
		c.Uses = store.MergeUses(c.Uses)
		logs, creates = append(logs, l), append(creates, c)
	}
	create(t, s, creates)
	return logs
}

func create(t testing.TB, s store.Store, creates []store.Create) {
	t.Helper()
	answers, err := s.Create(testContext(t), creates)
	check(t, err)
	for _, a := range answers {
		check(t, a.Err)
	}
}

func setOneAtOnce(t testing.TB, s *sqlitestore.Store, name string) {
	t.Helper()
	check(t, s.SetLimits(testContext(t), 0, []store.SetLimit{{LimitID: part(name, ""), Config: store.LimitConfig{AtOnce: 1}}}))
}

// limitsOf returns the held and the waiting weights of each limit.
func limitsOf(t testing.TB, s *sqlitestore.Store) map[store.LimitID][2]int {
	t.Helper()
	all, err := s.Limits(testContext(t), 0, store.LimitID{}, 1000)
	check(t, err)
	counts := map[store.LimitID][2]int{}
	for _, l := range all {
		counts[l.LimitID] = [2]int{l.Held, l.Waits}
	}
	return counts
}

// change executes SQL statements on the file while the store has it open.
func change(t testing.TB, path string, statements ...string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	check(t, err)
	c.SetBusyTimeout(10 * time.Second)
	for _, statement := range statements {
		check(t, sqlitex.ExecuteTransient(c, statement, nil))
		if c.Changes() == 0 {
			t.Errorf("%s: changes nothing", statement)
		}
	}
	check(t, c.Close())
}

// TestRepair_MakesLimitsAgainFromTheRuns proves that a repair derives lost counts of limits and
// lost limiter queues from the runs. The waiting runs then continue in the order of their
// positions.
func TestRepair_MakesLimitsAgainFromTheRuns(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string][]string{
		"counts":                     {`UPDATE limits SET held = held + 2, waits = waits + 1`},
		"lost counts":                {`DELETE FROM limits`},
		"lost lines":                 {`DELETE FROM lines`, `DELETE FROM line_parts`},
		"lost parts of a line":       {`DELETE FROM line_parts`},
		"wrong turn":                 {`UPDATE lines SET place = place + 100`},
		"wrong first":                {`UPDATE lines SET first = 4711`},
		"forgotten shut line":        {`UPDATE limit_configs SET given = '{"AtOnce":9}'`},
		"owner without permits":      {`UPDATE runs SET bits = 0 WHERE place = 2`},
		"permits without an owner":   {`UPDATE runs SET bits = 4 WHERE place = 7`},
		"waits and is in no line":    {`UPDATE runs SET line = NULL WHERE place = 7`},
		"waits for a worker instead": {`UPDATE runs SET place = 1 WHERE place = 7`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
			s := openStore(t, path, clock)
			setOneAtOnce(t, s, "gpu")
			openSession(t, s, "a")
			logs := startUsing(t, s, 3, part("gpu", ""), part("net", "x"))
			held := claim(t, s, "a", 10)
			if len(held) != 1 || held[0].Run != logs[0].Run {
				t.Fatalf("claimed %v, want the first run", held)
			}
			want := limitsOf(t, s)
			change(t, path, damage...)
			report, err := fsck.Repair(testContext(t), s, fsck.Options{})
			check(t, err)
			if len(report.Fixes) == 0 || len(report.Remaining) > 0 {
				t.Errorf("repair: got %+v, want fixes, and nothing that remains", report)
			}
			if diff := cmp.Diff(want, limitsOf(t, s)); diff != "" {
				t.Errorf("limits after the repair (-want +got):\n%s", diff)
			}
			verify(t, s)
			setOneAtOnce(t, s, "gpu")
			for i, l := range logs {
				if i > 0 {
					if held = claim(t, s, "a", 10); len(held) != 1 || held[0].Run != l.Run {
						t.Fatalf("claim %d: got %v, want run %s", i, held, l.Run)
					}
				}
				check(t, s.Release(testContext(t), l.Run, held[0].Fence))
				if held = claim(t, s, "a", 10); len(held) != 1 || held[0].Run != l.Run {
					t.Fatalf("claim after release %d: got %v, want run %s", i, held, l.Run)
				}
				c := l.Commit(held[0].Fence, append(l.Work(), l.End(event.StatusCompleted)...)...)
				c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
				answers, err := s.Commit(testContext(t), []store.Commit{c})
				check(t, err)
				check(t, answers[0].Err)
			}
			verify(t, s)
		})
	}
}

func TestRepair_LeavesSoundLimitsAlone(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), storetest.NewClock())
	setOneAtOnce(t, s, "gpu")
	openSession(t, s, "a")
	startUsing(t, s, 3, part("gpu", ""))
	claim(t, s, "a", 10)
	report, err := fsck.Repair(testContext(t), s, fsck.Options{})
	check(t, err)
	if len(report.Fixes) > 0 || len(report.Remaining) > 0 {
		t.Errorf("repair: got %+v, want nothing to do", report)
	}
}

// TestREC10_ADamagedPageOfLimitsKeepsNoUnlimitedRun proves that a damaged page of the limits does
// not affect runs without limits.
func TestREC10_ADamagedPageOfLimitsKeepsNoUnlimitedRun(t *testing.T) {
	t.Parallel()
	for _, tree := range []string{"lines", "lines_open", "line_parts", "line_turns", "limits"} {
		t.Run(tree, func(t *testing.T) {
			t.Parallel()
			clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
			s := openStore(t, path, clock)
			setOneAtOnce(t, s, "customer")
			limited := make([]store.Create, 900)
			for n := range limited {
				limited[n] = newLog(clock).Create()
				limited[n].Uses = []store.Use{{LimitID: part("customer", fmt.Sprintf("a customer with a long name, number %05d", n)), Weight: 1}}
			}
			create(t, s, limited)
			openSession(t, s, "a")
			want := map[event.RunID]bool{}
			for _, l := range start(t, s, 20) {
				want[l.Run] = true
			}
			check(t, s.Close())
			overwrite(t, path, tree, func(pages []int64) int64 { return pages[0] })
			s = openStore(t, path, clock)
			for range 100 {
				for _, r := range claim(t, s, "a", 50) {
					delete(want, r.Run)
				}
				if len(want) == 0 {
					break
				}
			}
			if len(want) > 0 {
				t.Errorf("%d runs that use no limit are not claimed", len(want))
			}
			_, err := s.Heartbeat(testContext(t), 0, "a")
			check(t, err)
			if len(s.Damage()) == 0 {
				t.Error("no damage is told")
			}
		})
	}
}

// TestClaim_MendsALineWithAnotherFirstRun proves that a claim corrects a limiter queue whose
// recorded first run does not wait in it.
func TestClaim_MendsALineWithAnotherFirstRun(t *testing.T) {
	t.Parallel()
	for _, first := range []string{`4711`, `(SELECT key FROM runs WHERE place = 2)`} {
		path := filepath.Join(t.TempDir(), "runs.db")
		s := openStore(t, path, storetest.NewClock())
		openSession(t, s, "a")
		start(t, s, 1)
		claim(t, s, "a", 1)
		l := startUsing(t, s, 1, part("gpu", ""))[0]
		change(t, path, `UPDATE lines SET first = `+first)
		if got := claim(t, s, "a", 10); len(got) != 1 || got[0].Run != l.Run {
			t.Errorf("claimed %v with a first run of %s, want the run that waits", got, first)
		}
		verify(t, s)
	}
}

// TestOpen_KeepsLimits proves that all data of limits survive a restart, including closed limiter
// queues.
func TestOpen_KeepsLimits(t *testing.T) {
	t.Parallel()
	clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, clock)
	setOneAtOnce(t, s, "gpu")
	openSession(t, s, "a")
	logs := startUsing(t, s, 3, part("gpu", ""))
	held := claim(t, s, "a", 10)
	before := verify(t, s)
	check(t, s.Close())
	s = openStore(t, path, clock)
	after := verify(t, s)
	if diff := cmp.Diff(before.Limits, after.Limits); diff != "" {
		t.Errorf("limits (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Waiting, after.Waiting); diff != "" {
		t.Errorf("lines (-before +after):\n%s", diff)
	}
	if got := claim(t, s, "a", 10); len(got) > 0 {
		t.Errorf("claimed %v while the permit is held", got)
	}
	check(t, s.Release(testContext(t), logs[0].Run, held[0].Fence))
	if got := claim(t, s, "a", 10); len(got) != 1 || got[0].Run != logs[0].Run {
		t.Errorf("claimed %v, want the run that was released", got)
	}
}

func TestHeartbeat_NamesWaitingRunsThatNobodyServes(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), storetest.NewClock())
	check(t, s.OpenSession(testContext(t), store.Session{ID: "a", Worker: "test", TTL: ttl, Routes: []store.Route{refunds}}))
	l := startUsing(t, s, 1, part("gpu", ""))[0]
	got, err := s.Heartbeat(testContext(t), 0, "a")
	check(t, err)
	if diff := cmp.Diff([]event.RunID{l.Run}, got.Unserved); diff != "" {
		t.Errorf("unserved runs (-want +got):\n%s", diff)
	}
}

// TestWait_IsToldOfAPermitFromAnotherStore proves that a permit released by one process wakes a
// worker of another process.
func TestWait_IsToldOfAPermitFromAnotherStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "runs.db")
	one, other := openStore(t, path, nil), openStore(t, path, nil)
	setOneAtOnce(t, one, "gpu")
	openSession(t, one, "one")
	openSession(t, other, "other")
	logs := startUsing(t, one, 2, part("gpu", ""))
	held := claim(t, one, "one", 1)
	if got := claim(t, other, "other", 1); len(got) > 0 {
		t.Fatalf("claimed %v while the permit is held", got)
	}
	c := logs[0].Commit(held[0].Fence, append(logs[0].Work(), logs[0].End(event.StatusCompleted)...)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	answers, err := one.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, answers[0].Err)
	for {
		got, err := other.Wait(testContext(t), store.Wait{Sessions: []store.WaitSession{{Session: "other"}}, Routes: routes})
		check(t, err)
		if len(got.Claim) > 0 {
			break
		}
	}
	if got := claim(t, other, "other", 1); len(got) != 1 || got[0].Run != logs[1].Run {
		t.Errorf("claimed %v, want the run that has waited", got)
	}
}
