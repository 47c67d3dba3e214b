package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// haltsAfter is an environment variable for processes of this test that execute flowctl. With it,
// the process halts forever after a number of store operations of one kind. An example of a value
// is deliver:150.
const haltsAfter = "FLOWTEST_HALTS_AFTER"

// halting is the store of a process that halts.
type halting struct {
	store.Store
	op   string
	most int64
	n    atomic.Int64
}

func (h *halting) Unwrap() store.Store { return h.Store }

// pass calls do, which executes n operations of the kind op. It halts before or after the call if
// the number of operations of kind h.op has reached h.most.
func (h *halting) pass(op string, n int, do func() error) error {
	halt := func() {
		if op == h.op && h.n.Load() >= h.most {
			fmt.Println("midway")
			select {}
		}
	}
	halt()
	err := do()
	if op == h.op && err == nil {
		h.n.Add(int64(n))
	}
	halt()
	return err
}

// Deliver implements store.Store.
func (h *halting) Deliver(ctx context.Context, d store.Deliver) (run event.RunID, err error) {
	err = h.pass("deliver", 1, func() error { run, err = h.Store.Deliver(ctx, d); return err })
	return run, err
}

// Create implements store.Store.
func (h *halting) Create(ctx context.Context, runs []store.Create) (got []store.Created, err error) {
	err = h.pass("create", len(runs), func() error { got, err = h.Store.Create(ctx, runs); return err })
	return got, err
}

// Commit implements store.Store.
func (h *halting) Commit(ctx context.Context, commits []store.Commit) (got []store.Committed, err error) {
	err = h.pass("commit", len(commits), func() error { got, err = h.Store.Commit(ctx, commits); return err })
	return got, err
}

// haltingMain executes flowctl with a halting store.
func haltingMain(after string) int {
	return cli.Main(context.Background(), cli.Config{Open: func(ctx context.Context, url string) (store.Store, error) {
		st, err := store.OpenExisting(ctx, url)
		op, n, _ := strings.Cut(after, ":")
		most, _ := strconv.ParseInt(n, 10, 64)
		return &halting{Store: st, op: op, most: most}, err
	}})
}

// manyRuns is large enough for more than two parts of a bulk action.
const manyRuns = 240

// many returns a shop with manyRuns held runs.
func many(t *testing.T, url string) *shop {
	t.Helper()
	s := &shop{t: t, url: url, runs: map[string]string{}}
	s.look(func(ctx context.Context, c *workflow.Client) {
		for n := range manyRuns {
			run, err := orders.Start(ctx, c, "good", workflow.WithID(fmt.Sprint("order-", n)), workflow.WithHold())
			if err != nil {
				t.Fatal(err)
			}
			s.runs[fmt.Sprint(n)] = string(run.ID())
		}
	})
	return s
}

// killAmid starts a bulk action with flowctl, and kills the process with SIGKILL after it has
// halted. It returns the ID of the action.
func (s *shop) killAmid(after string, args ...string) string {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := exec.Command(program, append([]string{"--store", s.url}, args...)...)
	stdout := newOutput()
	p.Env, p.Stdout = append(os.Environ(), haltsAfter+"="+after), stdout
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		_ = p.Process.Kill()
		_ = p.Wait() // Wait returns an error because the process was killed.
	}()
	stdout.has(s.t, "midway")
	page := s.bulks()
	if len(page.Bulks) != 1 || page.Bulks[0].Status != admin.BulkRunning || page.Bulks[0].Done == 0 || page.Bulks[0].Done >= manyRuns {
		s.t.Fatalf("before the kill: %+v, want an action that is under way", page.Bulks)
	}
	return page.Bulks[0].ID
}

func (s *shop) bulks() (page admin.BulkPage) {
	s.t.Helper()
	g := s.flowctl("bulk", "--json")
	if err := json.Unmarshal([]byte(g.stdout), &page); err != nil {
		s.t.Fatalf("bulk: %+v, %v", g, err)
	}
	return page
}

// killed describes when the flowctl process that executes a bulk action is killed, and how the
// action is continued.
type killed struct {
	after  string
	args   []string
	served bool // flowctl serve continues the action; if false, the next flowctl that waits for the action continues it
	once   func(ctx context.Context, t *testing.T, c *workflow.Client, run workflow.RunID) int
}

var kills = map[string]killed{
	"cancel, as runs are asked":  {"deliver:150", []string{"cancel"}, false, canceled},
	"cancel, as runs have ended": {"commit:150", []string{"cancel"}, true, canceled},
	"restart":                    {"create:150", []string{"restart", "--status", "cancelled"}, true, nil},
}

// The test proves that a bulk action continues after the flowctl that executes it is killed in the
// middle of a part. The next flowctl that waits for the action continues it, or flowctl serve does.
// Each run accepts the action exactly once, even if its result was not recorded before the kill.
func TestOPS1_ABulkActionOutlivesTheFlowctlThatWorksOnIt(t *testing.T) {
	for name, tt := range kills {
		t.Run(name, func(t *testing.T) { tt.outlived(t, "sqlite:"+filepath.Join(t.TempDir(), "shop.db")) })
	}
}

// The test proves that a bulk action also continues on Redis. The store does not detect the end of
// a process, so the action continues when the lease of the killed process has expired, after half a
// minute. The cases wait in parallel.
func TestOPS1_ABulkActionOutlivesTheFlowctlThatWorksOnItOnRedis(t *testing.T) {
	for name, tt := range kills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.outlived(t, redistest.Start(t).URL())
		})
	}
}

func (tt killed) outlived(t *testing.T, url string) {
	s := many(t, url)
	if tt.once == nil {
		s.look(func(ctx context.Context, c *workflow.Client) {
			for _, err := range ops.New(c).CancelMany(ctx, "", s.all()...) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	id := s.killAmid(tt.after, append(tt.args, "--workflow", "shop.order", "-y", "--expect", fmt.Sprint(manyRuns), "--rate", "100")...)
	var g got
	if tt.served {
		g = flowctl(t, "--server", s.serve("127.0.0.1:0").url, "bulk", "show", id, "--wait")
	} else {
		g = s.flowctl("bulk", "show", id, "--wait")
	}
	if g.code != 0 || !strings.Contains(g.stdout, "completed") {
		t.Errorf("bulk show --wait: %+v", g)
	}
	if b := s.bulks().Bulks[0]; b.Status != admin.BulkCompleted || b.Total != manyRuns || b.Done != manyRuns || b.Failed+b.Refused+b.Skipped+b.Left > 0 {
		t.Errorf("got %+v, want completed, and all done", b)
	}
	s.look(func(ctx context.Context, c *workflow.Client) {
		made := again(ctx, t, c)
		for what, id := range s.runs {
			n := made[workflow.RunID(id)]
			if tt.once != nil {
				n = tt.once(ctx, t, c, workflow.RunID(id))
			}
			if n != 1 {
				t.Errorf("run %s has taken it %d times, want once", what, n)
			}
		}
	})
}

// all returns the IDs of the runs of the shop.
func (s *shop) all() (ids []workflow.RunID) {
	for _, id := range s.runs {
		ids = append(ids, workflow.RunID(id))
	}
	return ids
}

// canceled returns the number of requests to cancel a run that has ended.
func canceled(ctx context.Context, t *testing.T, c *workflow.Client, run workflow.RunID) (n int) {
	t.Helper()
	for e, err := range c.Run(run).Events(ctx, workflow.Types(event.CancelRequested)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.CancelRequested {
			n++
		}
	}
	return n
}

// again returns the number of reruns of each run that was rerun.
func again(ctx context.Context, t *testing.T, c *workflow.Client) map[workflow.RunID]int {
	t.Helper()
	made := map[workflow.RunID]int{}
	for info, err := range c.List(ctx, workflow.Filter{Workflow: orders.Name()}) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range c.Run(info.ID).Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Spec.RerunOf != "" {
				made[e.Spec.RerunOf]++
			}
			break
		}
	}
	return made
}
