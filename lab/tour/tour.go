package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// tour contains the state that all stops share.
type tour struct {
	ctx      context.Context
	client   *workflow.Client
	store    store.Store
	bank     *flows.Bank
	messages int
	name     string // prefix of the workflow IDs of this tour; the store may contain runs of other tours
	report   *report
}

// stop is a part of the tour that demonstrates one requirement.
type stop struct {
	row  string
	what string // description of the requirement
	show func(t *tour) (observed string, err error)
}

// newName returns a unique name for a tour.
func newName() string { return strings.ToLower(rand.Text()[:10]) }

// visit visits all stops concurrently and reports their results in order. After the first round it
// reports only failures.
func (t *tour) visit(stops []stop, round int) {
	t.name = fmt.Sprintf("tour-%s-%d", newName(), round)
	type seen struct {
		observed string
		err      error
	}
	results := make([]chan seen, len(stops))
	var all sync.WaitGroup
	for i, s := range stops {
		results[i] = make(chan seen, 1)
		all.Go(func() {
			observed, err := s.show(t)
			results[i] <- seen{observed, err}
		})
	}
	for i, s := range stops {
		if r := <-results[i]; round == 1 || r.err != nil {
			t.report.line(s.row, s.what, r.observed, r.err)
		}
	}
	all.Wait()
}

// row reports an additional row, whose result show returns.
func (t *tour) row(row, what string, show func() (string, error)) {
	observed, err := show()
	t.report.line(row, what, observed, err)
}

// sound checks the invariants of the store with fsck.
func (t *tour) sound() (string, error) {
	inspector, ok := store.As[store.Inspector](t.store)
	if !ok {
		return "", errors.New("the store cannot be inspected")
	}
	snap, err := inspector.Inspect(t.ctx)
	if err != nil {
		return "", err
	}
	var broken []error
	for _, f := range fsck.Check(snap) {
		broken = append(broken, errors.New(f.String()))
	}
	return fmt.Sprintf("%d runs, and no invariant is broken", len(snap.Runs)), errors.Join(broken...)
}

// id returns the workflow ID with the given name for this tour.
func (t *tour) id(name string) string { return t.name + "-" + name }

// book returns the lines of a book in the order in which they were written.
func (t *tour) book(name string) (lines []string, err error) {
	rows, err := t.bank.DB.QueryContext(t.ctx, `SELECT line FROM notes WHERE book = $1 ORDER BY id`, name)
	if err != nil {
		return nil, fmt.Errorf("read book %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, fmt.Errorf("read book %s: %w", name, err)
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}

// eventually polls until holds returns true.
func (t *tour) eventually(what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, t.ctx.Err())
		}
	}
}

// reaches waits until a run has the status want.
func (t *tour) reaches(run *workflow.Handle, want workflow.Status) error {
	return t.eventually("the run is "+string(want), func() (bool, error) {
		info, err := run.Info(t.ctx)
		return err == nil && info.Status == want, err
	})
}

// expect returns an error if got and want differ in their printed form.
func expect(what string, got, want any) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s: got %.300s, want %.300s", what, g, w)
	}
	return nil
}

// report prints the rows of the tour.
type report struct {
	out    io.Writer
	json   bool
	failed []string
	err    error // first error of the output
}

func newReport(out io.Writer, json bool) *report { return &report{out: out, json: json} }

// line prints a row. It consists of the requirement and either the observation or the failure.
func (r *report) line(row, what, observed string, err error) {
	text := observed
	word := "ok    "
	if err != nil {
		r.failed = append(r.failed, fmt.Sprintf("%s (%s)", what, row))
		word, text = "FAILED", err.Error()
	}
	line := fmt.Sprintf("%s %s: %s (%s)", word, what, text, row)
	if r.json {
		b, err := json.Marshal(struct {
			Row      string `json:"row"`
			What     string `json:"what"`
			OK       bool   `json:"ok"`
			Observed string `json:"observed"`
		}{row, what, err == nil, text})
		r.err = errors.Join(r.err, err)
		line = string(b)
	}
	_, printed := fmt.Fprintln(r.out, line)
	r.err = errors.Join(r.err, printed)
}

// end returns an error that lists the requirements that were not met.
func (r *report) end() error {
	if len(r.failed) > 0 {
		return errors.Join(fmt.Errorf("this does not hold: %s", strings.Join(r.failed, ", ")), r.err)
	}
	return r.err
}

// stops contains the stops of the tour in the order in which they are reported. They are visited
// concurrently.
var stops = []stop{
	{"FLOW5", "messages arrive once and in order", messages},
	{"FLOW6", "hooks take what others post to a token", hooks},
	{"FLOW7", "values can be waited for and read from outside", values},
	{"FLOW8", "streams reach every reader whole", streams},
	{"RUN15", "slow readers are told that they fell behind", laggards},
	{"FLOW9", "children end as their parent wants", children},
	{"FLOW10", "a run that continues as new loses no message", continuations},
	{"FLOW11", "what was done is undone in reverse order", compensations},
	{"FLOW16", "asks are validated and answered once", asks},
	{"RUN3", "start options hold", startOptions},
	{"RUN5", "statuses say what a run waits for", statuses},
	{"RUN6", "followers see every event", followers},
	{"RUN8", "a cancel is recorded once and leaves time to clean up", cancels},
	{"RUN9", "a held run begins when it is released", held},
	{"RUN10", "a cancelled run goes on in a new one", resumed},
	{"RUN11", "runs are forked, restarted and retried", forked},
	{"RUN12", "runs are paused and executed step by step", paused},
	{"STEP10", "steps run on another queue", elsewhere},
	{"STEP12", "effects on a database happen exactly once", deposits},
	{"VER3", "a run keeps the version of a change that it met first", versions},
	{"POOL2", "limits hold over all workers", pools},
	{"POOL4", "a run that waits for a limit says so, and stops no other", customers},
	{"POOL5", "what cannot wait is refused", refusals},
	{"POOL5", "priority and fair keys say who comes next", turns},
	{"POOL7", "a key has one active run", singletons},
	{"POOL7", "many starts share a run", collected},
	{"POOL6", "the clock starts one run for each tick", schedules},
	{"REC1", "many runs at once keep their order", toils},
}
