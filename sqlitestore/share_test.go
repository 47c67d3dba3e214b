package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// startFair creates one run for each of the fairness keys.
func startFair(t testing.TB, s store.Store, keys ...string) []*storetest.Log {
	t.Helper()
	var logs []*storetest.Log
	var creates []store.Create
	for _, key := range keys {
		l := newLog(s.Clock())
		c := l.Create()
		c.Fair = key
		logs, creates = append(logs, l), append(creates, c)
	}
	create(t, s, creates)
	return logs
}

// TestRepair_MakesFlowsAgainFromTheRuns proves that a repair derives lost flows and passes from the
// runs. The keys then receive their shares again.
func TestRepair_MakesFlowsAgainFromTheRuns(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string][]string{
		"counts":          {`UPDATE flows SET waits = waits + 2`},
		"lost flows":      {`DELETE FROM flows`},
		"lost passes":     {`DELETE FROM passes`},
		"passes too low":  {`UPDATE passes SET pass = 1`},
		"a share of none": {`UPDATE runs SET share = NULL WHERE fair = 'acme'`},
		"too large share": {`UPDATE runs SET share = 4711 WHERE fair = 'acme'`},
		"flow of nobody":  {`INSERT INTO flows SELECT class, 7, 1, 1, 0 FROM runs LIMIT 1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
			s := openStore(t, path, clock)
			openSession(t, s, "a")
			logs := startFair(t, s, "acme", "acme", "acme", "acme", "bolt", "bolt")
			claim(t, s, "a", 2)
			want := verify(t, s).FairKeys
			change(t, path, damage...)
			report, err := fsck.Repair(testContext(t), s, fsck.Options{})
			check(t, err)
			if len(report.Fixes) == 0 || len(report.Remaining) > 0 {
				t.Errorf("repair: got %+v, want fixes, and nothing that remains", report)
			}
			if diff := cmp.Diff(want, verify(t, s).FairKeys); diff != "" {
				t.Errorf("flows after the repair (-want +got):\n%s", diff)
			}
			late := startFair(t, s, "acme")
			got := claim(t, s, "a", 5)
			if len(got) != 5 || got[4].Run != late[0].Run {
				t.Errorf("claimed %v, want all, and %s last", got, late[0].Run)
			}
			if got[0].Run != logs[1].Run && got[1].Run != logs[1].Run {
				t.Errorf("claimed %v, want %s among the first two", got, logs[1].Run)
			}
			if fairKeys := verify(t, s).FairKeys; len(fairKeys) > 0 {
				t.Errorf("flows in which nobody waits: %v", fairKeys)
			}
		})
	}
}

// TestOpen_KeepsShares proves that the passes of fairness keys survive a restart, even those of
// keys without waiting runs.
func TestOpen_KeepsShares(t *testing.T) {
	t.Parallel()
	clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, clock)
	openSession(t, s, "a")
	startFair(t, s, "acme", "bolt", "bolt", "bolt")
	claim(t, s, "a", 2)
	before := verify(t, s)
	check(t, s.Close())
	s = openStore(t, path, clock)
	if diff := cmp.Diff(before.FairKeys, verify(t, s).FairKeys); diff != "" {
		t.Errorf("flows (-before +after):\n%s", diff)
	}
	again := startFair(t, s, "acme")
	got := claim(t, s, "a", 2)
	if len(got) != 2 || got[0].Run != again[0].Run && got[1].Run != again[0].Run {
		t.Errorf("claimed %v, want a run of each key", got)
	}
}

// TestShares_PassesThatAreOverAreForgotten proves that the pass of a key without waiting runs is
// soon removed, even if other keys always have waiting runs.
func TestShares_PassesThatAreOverAreForgotten(t *testing.T) {
	t.Parallel()
	clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, clock)
	openSession(t, s, "a")
	startFair(t, s, "always")
	for i := range 60 {
		startFair(t, s, "always", fmt.Sprint("once ", i))
		claim(t, s, "a", 2)
	}
	if n := rows(t, path, "passes"); n > 10 {
		t.Errorf("%d passes are kept, of 61 keys, want at most 10", n)
	}
	claim(t, s, "a", 1)
	if n := rows(t, path, "passes") + rows(t, path, "flows"); n != 0 {
		t.Errorf("%d passes and flows are kept while nobody waits", n)
	}
}

// rows returns the number of rows of a table.
func rows(t testing.TB, path, table string) (n int) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	check(t, err)
	check(t, sqlitex.ExecuteTransient(c, "SELECT count(*) FROM "+table, &sqlitex.ExecOptions{ResultFunc: func(r *sqlite.Stmt) error {
		n = r.ColumnInt(0)
		return nil
	}}))
	check(t, c.Close())
	return n
}
