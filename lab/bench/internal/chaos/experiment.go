package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/record"
	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// experiment is one execution of the command.
type experiment struct {
	*options
	dir    string
	stderr io.Writer
	self   string // path of this program
	guard  *fleet.Guard
	site   *fleet.Site
	store  store.Store
	client *workflow.Client
	orders []*order
	began  time.Time

	mu      sync.Mutex
	started map[event.RunID]bool // runs that are not known to have ended
	ended   map[event.RunID]time.Time
	answers map[event.RunID]flows.Result
	stalls  []check.Stall
	deaths  map[string]time.Time // by worker: the time before it was stopped
	changes []check.Change

	capacities *capacities
	found      []check.Violation // found by the driver
	harms      harms
	// recovered is the number of recoveries since its last progress that a run had at the last
	// poll.
	recovered map[event.RunID]int
}

// harms counts the disturbances.
type harms struct {
	Kills          int `json:"kills"`
	Stalls         int `json:"stalls"`
	Stops          int `json:"stops"`
	ServerRestarts int `json:"serverRestarts"`
	Failovers      int `json:"failovers"`
	Changes        int `json:"changes"` // changes of capacities
	Pauses         int `json:"pauses"`  // pauses of limits, their keys, and runs
	Recoveries     int `json:"-"`       // recoveries observed so far
}

func newExperiment(o *options, dir string, stderr io.Writer) *experiment {
	return &experiment{
		options: o, dir: dir, stderr: stderr, orders: plan(o),
		started: map[event.RunID]bool{}, ended: map[event.RunID]time.Time{},
		answers: map[event.RunID]flows.Result{}, recovered: map[event.RunID]int{},
		deaths: map[string]time.Time{}, capacities: newCapacities(),
	}
}

// run executes the experiment. It returns an error if the experiment could not be carried out.
func (x *experiment) run(ctx context.Context) (*outcome, error) {
	var err error
	if x.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if x.guard, err = fleet.NewGuard(x.self, roleGuard); err != nil {
		return nil, err
	}
	defer func() { _ = x.guard.Close() }() // all its processes have ended
	if x.site, err = fleet.Open(ctx, x.guard, x.dir, x.options.store, x.settings()...); err != nil {
		return nil, err
	}
	defer x.site.Close()
	var disconnect func()
	if x.store, x.client, disconnect, err = x.site.Connect(ctx, x.dir); err != nil {
		return nil, err
	}
	defer disconnect()
	if err := x.harmAndWait(ctx); err != nil {
		return nil, err
	}
	return x.judge(ctx)
}

func (x *experiment) settings() []string {
	if !x.restartServer {
		return nil
	}
	return fleet.Settings(x.appendfsync)
}

// harmAndWait disturbs the fleet for the requested time and then waits until every run has ended.
// The fleet is stopped when it returns.
func (x *experiment) harmAndWait(ctx context.Context) error {
	first, err := x.hireAll()
	if err != nil {
		return err
	}
	x.began = time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, x.duration()+x.options.wait, errLate)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	harm, calm := context.WithTimeout(ctx, x.duration())
	defer calm()

	var crew sync.WaitGroup
	leave := make(chan struct{})
	for n := range x.workers {
		crew.Go(func() {
			if err := x.live(ctx, harm, n+1, first[n], leave); err != nil {
				fail(err)
			}
		})
	}
	if x.restartServer {
		crew.Go(func() {
			if err := x.restartServers(harm, ctx); err != nil {
				fail(err)
			}
		})
	}
	if x.failovers > 0 {
		crew.Go(func() {
			if err := x.failOver(harm, ctx); err != nil {
				fail(err)
			}
		})
	}
	if x.limits {
		crew.Go(func() { x.changeCapacities(harm, ctx) })
		crew.Go(func() { x.pauseSome(harm, ctx) })
	}
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		x.drive(ctx)
	}()
	x.watch(ctx, driven)
	<-driven
	calm()
	close(leave)
	crew.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errLate) {
		return err
	}
	return nil // active runs are reported as lost
}

// errLate is the cause of a context that has timed out.
var errLate = errors.New("the runs did not end in time")

// outcome is the result of an experiment.
type outcome struct {
	*check.Verdict

	evidence *check.Evidence
}

// judge collects the evidence and checks it.
func (x *experiment) judge(ctx context.Context) (*outcome, error) {
	snapshot, err := inspect(ctx, x.site.Patient())
	if err != nil {
		return nil, fmt.Errorf("read what the store holds: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := &check.Evidence{Snapshot: snapshot, Ended: x.ended, Answers: x.answers, Stalls: x.stalls, Deaths: x.deaths, Changes: x.changes}
	for _, o := range x.orders {
		e.Jobs = append(e.Jobs, o.Job)
	}
	if e.Executions, err = record.Read(x.dir); err != nil {
		return nil, err
	}
	v := check.Check(*e)
	v.Violations = append(v.Violations, x.found...)
	return &outcome{Verdict: v, evidence: e}, nil
}

// inspect reads the whole contents of a store.
func inspect(ctx context.Context, url string) (*store.Snapshot, error) {
	st, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }() // opened only for reading
	inspector, ok := store.As[store.Inspector](st)
	if !ok {
		return nil, errors.New("the store does not show it")
	}
	return inspector.Inspect(ctx)
}

// notef records a violation found by the driver.
func (x *experiment) notef(kind check.Kind, run event.RunID, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.found = append(x.found, check.Violation{Kind: kind, Run: run, What: fmt.Sprintf(format, args...)})
}
