package sqlitestore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

var (
	napper = shim.NewWorkflow[string, string]("damaged.napper", "in", shim.WorkflowPolicy{})
	parent = shim.NewWorkflow[string, string]("damaged.parent", "in", shim.WorkflowPolicy{})
	nap    = time.Second
)

// noted is a log that can be read while a logger writes to it.
type noted struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *noted) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with returns the lines that contain all of the texts.
func (l *noted) with(texts ...string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.text.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		all = append(all, line)
	}
	return all
}

// scene is a file with runs on several pages, and a client.
type scene struct {
	t       *testing.T
	fairKey workflow.Definition[string, string]
	ctx     context.Context
	path    string
	store   *sqlitestore.Store
	client  *workflow.Client
	log     *noted
	runs    []event.RunID
}

func newScene(t *testing.T, fairKey workflow.Definition[string, string], runs int) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the tests run in parallel and need time
	t.Cleanup(cancel)
	s := &scene{t: t, fairKey: fairKey, ctx: ctx, path: filepath.Join(t.TempDir(), "runs.db"), log: &noted{}}
	s.open()
	for n := range runs {
		r, err := fairKey.Start(s.ctx, s.client, fmt.Sprint(n), workflow.WithTags(map[string]string{"number": fmt.Sprint(n)}))
		check(t, err)
		s.runs = append(s.runs, r.ID())
	}
	return s
}

func (s *scene) open() {
	s.store = openStore(s.t, s.path, nil)
	s.client = workflow.NewClient(s.store, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(s.log, nil))})
}

func (s *scene) close() {
	s.t.Helper()
	check(s.t, errors.Join(s.client.Close(), s.store.Close()))
}

// staff starts a worker. stop stops it.
func (s *scene) staff(st store.Store) (stop func()) {
	s.t.Helper()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	w := worker.New(client, worker.Config{NoLocalStart: true})
	shim.BindWorkflow(w, napper, func(ctx workflow.Context, in string) (string, error) {
		return "done", workflow.Sleep(ctx, nap)
	})
	shim.BindWorkflow(w, parent, func(ctx workflow.Context, in string) (string, error) { return napper.Child(ctx, in) })
	ctx, cancel := context.WithCancel(s.ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := errors.Join(<-worked, client.Close()); err != nil {
				s.t.Errorf("worker: %v", err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

// until waits until done returns true.
func (s *scene) until(what string, done func() bool) {
	s.t.Helper()
	for !done() {
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain until %s\n%s", what, strings.Join(s.log.with("level=ERROR"), ""))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func middle(pages []int64) int64 { return pages[len(pages)/2] }
func last(pages []int64) int64   { return pages[len(pages)-1] }
func first(pages []int64) int64  { return pages[0] }

// overwrite closes the file, overwrites a page of a table or index, and opens the file again.
func (s *scene) overwrite(tree string, which func([]int64) int64) {
	s.t.Helper()
	s.close()
	overwrite(s.t, s.path, tree, which)
	s.open()
}

func overwrite(t *testing.T, path, tree string, which func([]int64) int64) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	check(t, err)
	var pages []int64
	check(t, sqlitex.ExecuteTransient(c, `SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path`, &sqlitex.ExecOptions{
		Args: []any{tree}, ResultFunc: func(r *sqlite.Stmt) error { pages = append(pages, r.ColumnInt64(0)); return nil },
	}))
	check(t, c.Close())
	if len(pages) < 3 {
		t.Fatalf("%s has %d pages, want at least 3", tree, len(pages))
	}
	const size = 4096
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, size), (which(pages)-1)*size)
	check(t, errors.Join(err, f.Close()))
}

// sort returns the runs with readable rows and the runs with unreadable rows.
func (s *scene) sort() (innocent, damaged []event.RunID) {
	s.t.Helper()
	for _, run := range s.runs {
		_, err := s.fairKey.Get(s.client, run).Info(s.ctx)
		var named *store.DamagedError
		switch {
		case err == nil:
			innocent = append(innocent, run)
		case errors.As(err, &named) && named.Run == run:
			damaged = append(damaged, run)
		default:
			s.t.Fatalf("Info of run %s: got %v, want an answer or a DamagedError that names it", run, err)
		}
	}
	if len(damaged) == 0 || len(innocent) < 20 {
		s.t.Fatalf("%d runs are damaged and %d are not, want one page and 20 beside it", len(damaged), len(innocent))
	}
	return innocent, damaged
}

// TestREC10_ADamagedPageOfRunsKeepsNoOther overwrites a page of the table runs. It proves that the
// runs on the page cannot be read, that all others complete, even those on neighboring pages, and
// that each damaged run is reported once.
func TestREC10_ADamagedPageOfRunsKeepsNoOther(t *testing.T) {
	for name, state := range map[string]struct {
		runs    int
		page    func([]int64) int64
		fairKey workflow.Definition[string, string]
		setUp   func(s *scene)
	}{
		"ready":                        {150, middle, napper, func(*scene) {}},
		"ready, few":                   {90, middle, napper, func(*scene) {}},
		"ready, first":                 {150, first, napper, func(*scene) {}},
		"ready, the last":              {150, last, napper, func(*scene) {}},
		"asleep":                       {150, middle, napper, (*scene).fallAsleep},
		"owned by a process that died": {150, middle, napper, (*scene).die},
		"with a record in the outbox":  {150, middle, parent, (*scene).send},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, state.fairKey, state.runs)
			state.setUp(s)
			s.overwrite("runs", state.page)
			innocent, damaged := s.sort()
			stop := s.staff(s.store)
			s.complete(innocent)
			later, err := napper.Start(s.ctx, s.client, "later")
			check(t, err)
			if _, err := later.Result(s.ctx); err != nil {
				t.Errorf("a run that was started later: %v", err)
			}
			s.listed(innocent)
			stop()
			s.told(innocent, 0)
			s.told(damaged, 1)
			s.examined(damaged)
		})
	}
}

// fallAsleep executes all runs until they sleep.
func (s *scene) fallAsleep() {
	stop := s.staff(s.store)
	s.until("all sleep", func() bool {
		for _, run := range s.runs {
			if info, err := s.fairKey.Get(s.client, run).Info(s.ctx); err != nil || info.Events < 2 {
				return false
			}
		}
		return true
	})
	stop()
}

// die gives all runs to a process, and ends the process together with its store.
func (s *scene) die() {
	s.t.Helper()
	route := store.Route{Queue: workflow.DefaultQueue, Workflow: "damaged.napper"}
	dead := store.Session{ID: "dead", Worker: "dead", TTL: time.Hour, Routes: []store.Route{route}}
	check(s.t, s.store.OpenSession(s.ctx, dead))
	got, err := s.store.Claim(s.ctx, store.Claim{Session: "dead", Token: event.NewToken(), Routes: dead.Routes, Max: 1000})
	check(s.t, err)
	if len(got.Runs) != len(s.runs) {
		s.t.Fatalf("claimed %d runs, want %d", len(got.Runs), len(s.runs))
	}
}

// send executes all runs until each has an outbox record that starts a child. No child is created.
func (s *scene) send() {
	stop := s.staff(storetest.Mute{Store: s.store})
	s.until("all have sent a record", func() bool { return len(verify(s.t, s.store).Outbox) == len(s.runs) })
	stop()
}

// complete fails the test unless all the given runs complete.
func (s *scene) complete(runs []event.RunID) {
	s.t.Helper()
	for _, run := range runs {
		if _, err := s.fairKey.Get(s.client, run).Result(s.ctx); err != nil {
			s.t.Fatalf("an innocent run: %v\n%s", err, strings.Join(s.log.with("level=ERROR"), ""))
		}
	}
}

// told fails the test unless the log reports each run as damaged the given number of times.
func (s *scene) told(runs []event.RunID, times int) {
	s.t.Helper()
	for _, run := range runs {
		if told := s.log.with("is damaged", "run="+string(run)); len(told) != times {
			s.t.Errorf("damage of run %s was told %d times, want %d:\n%s", run, len(told), times, strings.Join(told, ""))
		}
	}
}

// listed fails the test unless lists and counts omit the damaged runs.
func (s *scene) listed(innocent []event.RunID) {
	s.t.Helper()
	want := map[event.RunID]bool{}
	for _, run := range innocent {
		want[run] = true
	}
	got := 0
	for info, err := range s.client.List(s.ctx, workflow.Filter{}) {
		check(s.t, err)
		if want[info.ID] {
			got++
		}
	}
	if got != len(innocent) {
		s.t.Errorf("listed %d of the innocent runs, want %d", got, len(innocent))
	}
	counts, err := s.client.Count(s.ctx, workflow.Filter{})
	if err != nil || counts.ByStatus()[workflow.StatusCompleted] < len(innocent) {
		s.t.Errorf("counted %v, %v, want %d completed", counts, err, len(innocent))
	}
}

// examined fails the test unless fsck reports the damaged runs and changes nothing.
func (s *scene) examined(damaged []event.RunID) {
	s.t.Helper()
	report, err := fsck.Repair(s.ctx, s.store, fsck.Options{})
	check(s.t, err)
	found := ""
	for _, f := range report.Remaining {
		found += f.String() + "\n"
	}
	for _, fix := range report.Fixes {
		if fix.Outcome != fsck.OutcomeRemains {
			s.t.Errorf("the repair did %+v in a damaged file", fix)
		}
	}
	for _, run := range damaged {
		if !strings.Contains(found, "the row of run "+string(run)+" cannot be read") {
			s.t.Errorf("the repair does not name run %s:\n%s", run, found)
		}
	}
}

// TestREC10_ADamagedPageOfAnIndexIsNamed overwrites a page of an index. It proves that runs that
// have or need an entry on the page are set aside and reported. So are runs with a damaged page in
// their logs. A repair reports the page.
func TestREC10_ADamagedPageOfAnIndexIsNamed(t *testing.T) {
	s := newScene(t, napper, 400)
	s.overwrite("sqlite_autoindex_runs_1", middle)
	report, err := fsck.Repair(s.ctx, s.store, fsck.Options{})
	check(t, err)
	found := fmt.Sprint(report.Remaining)
	if !strings.Contains(found, "the file is damaged: ") || !strings.Contains(found, "page") {
		t.Errorf("the repair does not name the page: %s", found)
	}
	innocent, _ := s.sort()
	s.staff(s.store)
	s.complete(innocent)
}

// TestREC10_ADamagedPageOfTheJournalIsNamed proves that a repair reports a damaged page of the
// journal, and checks the rest of the file.
func TestREC10_ADamagedPageOfTheJournalIsNamed(t *testing.T) {
	t.Parallel()
	s := newScene(t, napper, 30)
	for n := range 300 {
		e := store.JournalEntry{ID: store.NewJournalID(time.UnixMilli(int64(n))), Action: "pause", Reason: strings.Repeat("x", 200)}
		check(t, store.WriteJournal(s.ctx, s.store, e, store.JournalKeep{}))
	}
	s.overwrite("entries", middle)
	report, err := fsck.Repair(s.ctx, s.store, fsck.Options{})
	check(t, err)
	if len(report.Remaining) == 0 || report.Remaining[0].Invariant != 16 || !strings.Contains(report.Remaining[0].What, "the file is damaged") || report.Runs != 30 {
		t.Errorf("got %+v, want that the file is damaged, and all runs", report)
	}
	for _, fix := range report.Fixes {
		if fix.Outcome != fsck.OutcomeRemains {
			t.Errorf("the repair did %+v in a damaged file", fix)
		}
	}
}
