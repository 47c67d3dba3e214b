package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// collecting is a workflow that receives words until it has enough, and sleeps after each.
var (
	collecting = shim.NewWorkflow[int, string]("rebuild.collecting", "words", shim.WorkflowPolicy{})
	words      = workflow.NewTopic[string]("words")
)

func init() { roles["fleet"] = playFleet }

// playFleet runs a worker until the process is killed.
func playFleet(args []string) error {
	return withStore(args, func(ctx context.Context, s *sqlitestore.Store) error {
		client := workflow.NewClient(s, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		w := worker.New(client, worker.Config{Heartbeat: 200 * time.Millisecond, ClaimExpiry: 2 * time.Second, Recoveries: 1000})
		shim.BindWorkflow(w, collecting, func(ctx workflow.Context, n int) (string, error) {
			var got []string
			for range n {
				word, err := words.Receive(ctx)
				if err != nil {
					return "", err
				}
				if got = append(got, word); workflow.Sleep(ctx, 5*time.Millisecond) != nil {
					return "", errors.New("woken")
				}
			}
			return strings.Join(got, " "), nil
		})
		return errors.Join(w.Run(ctx), client.Close())
	})
}

// harms are statements that damage the row of a run in any state. They keep the data that exist
// only in the row.
var harms = []string{
	`UPDATE runs SET root = 'wrun_x' WHERE key = ?1`,
	`UPDATE runs SET place = 0, ord = NULL, due = NULL WHERE key = ?1 AND place IN (1, 3)`,
	`UPDATE runs SET due = NULL WHERE key = ?1`,
	`UPDATE runs SET due = due + 3600000 WHERE key = ?1`,
	`UPDATE runs SET owner = NULL, token = NULL WHERE key = ?1 AND place = 2`,
	`UPDATE runs SET place = 3, ord = NULL WHERE key = ?1 AND place = 1`,
	`UPDATE runs SET n = n - 1, seq = seq - 1, last = zeroblob(16) WHERE key = ?1 AND n > 1 AND place <> 6`,
	`UPDATE workflow_ids SET active = NULL WHERE active = ?1`,
	`DELETE FROM tags WHERE run = ?1`,
}

// TestREC8_RebuildsRunsBesideProcessesThatAreKilled damages and rebuilds runs while processes
// execute them and are killed. It proves that each run receives every message once and in order.
func TestREC8_RebuildsRunsBesideProcessesThatAreKilled(t *testing.T) {
	const runs, each = 30, 4
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	ctx := testContext(t)
	client := workflow.NewClient(s, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { check(t, client.Close()) })
	var all []*workflow.Run[string]
	for n := range runs {
		run, err := collecting.Start(ctx, client, each, workflow.WithID(fmt.Sprint("run ", n)), workflow.WithTags(map[string]string{"n": fmt.Sprint(n)}))
		check(t, err)
		all = append(all, run)
	}
	raw, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	check(t, err)
	t.Cleanup(func() { check(t, raw.Close()) })
	raw.SetBusyTimeout(10 * time.Second)
	keys := make([]int64, runs)
	check(t, sqlitex.Execute(raw, `SELECT run, value FROM tags`, &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		n, err := strconv.Atoi(row.ColumnText(1))
		keys[n] = row.ColumnInt64(0)
		return err
	}}))

	fleet := []*child{startChild(t, "fleet", path), startChild(t, "fleet", path)}
	rebuilt, killed := 0, 0
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- repairUntil(ctx, s, done, &rebuilt) }()
	for n := range runs * each { // send each run one word at a time
		run, word := n%runs, n/runs
		check(t, words.Send(ctx, client.Run(all[run].ID()), fmt.Sprint("word", word), workflow.IdempotencyKey(fmt.Sprint(word))))
		check(t, sqlitex.Execute(raw, harms[n%len(harms)], &sqlitex.ExecOptions{Args: []any{keys[run]}}))
		if n%12 == 11 {
			fleet[killed%2].kill()
			fleet[killed%2] = startChild(t, "fleet", path)
			killed++
		}
	}
	for n, run := range all {
		if got, err := run.Result(ctx); err != nil || got != "word0 word1 word2 word3" {
			t.Errorf("run %d: got %q, %v", n, got, err)
		}
	}
	for _, c := range fleet {
		c.kill()
	}
	close(done)
	check(t, <-ended)
	if rebuilt < runs || killed < 5 {
		t.Errorf("%d repairs and %d kills, want more", rebuilt, killed)
	}
	verify(t, s)
}

// repairUntil repairs a store repeatedly until done is closed, and then once more.
func repairUntil(ctx context.Context, s store.Store, done <-chan struct{}, rebuilt *int) error {
	for last := false; ; {
		report, err := fsck.Repair(ctx, s, fsck.Options{})
		if err != nil || last {
			return err
		}
		for _, f := range report.Fixes {
			if f.Outcome == fsck.OutcomeRepaired {
				*rebuilt++
			}
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
}
