package sqlitestore

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS1_TheFleetIsFoundByIndexes proves that the statements of Fleet search indexes of open
// runs, and do not scan or sort runs.
func TestOPS1_TheFleetIsFoundByIndexes(t *testing.T) {
	s := openTest(t)
	scan := regexp.MustCompile(`SCAN (runs|r|l|lines|v)\b|USE TEMP B-TREE FOR ORDER`)
	for _, statement := range []string{
		fleetSessions, fleetOwned, fleetReady, fleetBlocked, fleetWaiting, fleetFirst, fleetQueues, fleetTurns, countRange,
	} {
		var plan []string
		check(t, s.read(testContext(t), func(c *conn) error {
			return c.QueryOnce(`EXPLAIN QUERY PLAN `+statement, func(r row) error { plan = append(plan, r.ColumnText(3)); return nil })
		}))
		text := strings.Join(plan, "\n")
		if statement == fleetOwned { // SQLite scans a partial index that contains only the owned runs
			text = strings.ReplaceAll(text, "SCAN runs USING INDEX runs_owned", "")
		}
		if len(plan) == 0 || scan.MatchString(text) {
			t.Errorf("%s\n%s", statement, text)
		}
	}
}

// TestOPS1_TheFleetSaysWhatItHasNotCounted proves that Fleet reports an exhausted budget, and
// counts ready runs first.
func TestOPS1_TheFleetSaysWhatItHasNotCounted(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	var runs []store.Create
	for range 30 {
		runs = append(runs, newRun(10))
	}
	for i := range runs[10:] {
		runs[10+i].Delay = time.Hour
	}
	_, err := s.Create(ctx, runs)
	check(t, err)
	for budget, want := range map[int]store.RouteLoad{
		100: {Ready: 10, Parked: 20}, 41: {Ready: 10, Parked: 20}, 40: {Ready: 10, Parked: 20, Inexact: true}, 25: {Ready: 10, Parked: 5, Inexact: true}, 5: {Ready: 5, Inexact: true},
	} {
		check(t, s.read(ctx, func(c *conn) error {
			n := &census{c: c, loads: map[int64]*store.RouteLoad{}, left: budget}
			if err := n.routes(); err != nil {
				return err
			}
			for _, l := range n.loads {
				if got := fmt.Sprint(l.Ready, l.Parked, l.Inexact); got != fmt.Sprint(want.Ready, want.Parked, want.Inexact) {
					t.Errorf("with a budget of %d: got %s, want %+v", budget, got, want)
				}
			}
			if len(n.loads) != 1 {
				t.Errorf("%d routes, want 1", len(n.loads))
			}
			return nil
		}))
	}
}

// TestOPS1_TheFleetCostsAStatementForEachNumber proves that the number of statements of Fleet grows
// with the number of routes, not of runs.
func TestOPS1_TheFleetCostsAStatementForEachNumber(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	statements := func(runs int) int64 {
		var all []store.Create
		for range runs {
			all = append(all, newRun(10))
		}
		_, err := s.Create(ctx, all)
		check(t, err)
		var n int64
		check(t, s.read(ctx, func(c *conn) error {
			before := c.Executed.Load()
			census := &census{c: c, loads: map[int64]*store.RouteLoad{}, left: store.FleetBudget}
			if _, err := census.sessions(); err != nil {
				return err
			}
			err := census.routes()
			n = c.Executed.Load() - before
			return err
		}))
		return n
	}
	if few, many := statements(1), statements(2000); few != many || few > 20 {
		t.Errorf("with one run %d statements, with 2,001 %d, want the same, of at most 20", few, many)
	}
	f, err := s.Fleet(ctx)
	check(t, err)
	if len(f.Routes) != 1 || f.Routes[0].Ready != 2001 || f.Routes[0].Inexact || f.Routes[0].First[0] == event.RunID("") {
		t.Errorf("got %+v, want 2,001 ready runs", f.Routes)
	}
}
