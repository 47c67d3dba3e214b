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
	started map[event.RunID]bool // those that are not known to have ended
	ended   map[event.RunID]time.Time
	answers map[event.RunID]flows.Result
	stalls  []check.Stall
	deaths  map[string]time.Time // by worker: before it was told to end
	changes []check.Change

	capacities *capacities
	found      []check.Violation // by the driver itself
	harms      harms
	// recovered is how many recoveries since its last progress a run had when it
	// was last looked at.
	recovered map[event.RunID]int
}

// harms counts what was done to the fleet.
type harms struct {
	Kills          int `json:"kills"`
	Stalls         int `json:"stalls"`
	Stops          int `json:"stops"`
	ServerRestarts int `json:"serverRestarts"`
	Failovers      int `json:"failovers"`
	Changes        int `json:"changes"` // of capacities
	Pauses         int `json:"pauses"`  // of limits, their keys, and runs
	Recoveries     int `json:"-"`       // seen so far
}

func newExperiment(o *options, dir string, stderr io.Writer) *experiment {
	return &experiment{
		options: o, dir: dir, stderr: stderr, orders: plan(o),
		started: map[event.RunID]bool{}, ended: map[event.RunID]time.Time{},
		answers: map[event.RunID]flows.Result{}, recovered: map[event.RunID]int{},
		deaths: map[string]time.Time{}, capacities: newCapacities(),
	}
}

// run makes the experiment. An error says that it could not be made.
func (x *experiment) run(ctx context.Context) (*outcome, error) {
	var err error
	if x.self, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if x.guard, err = fleet.NewGuard(x.self, roleGuard); err != nil {
		return nil, err
	}
	defer func() { _ = x.guard.Close() }() // everything it guards has ended
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

// harmAndWait lets the fleet work, harms it for the time that was asked for, and
// then waits until every run has ended. It returns with the fleet stopped.
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
	return nil // runs that have not ended are found to be lost
}

// errLate is the cause of a context whose time is up.
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

// inspect reads everything that a store holds.
func inspect(ctx context.Context, url string) (*store.Snapshot, error) {
	st, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }() // it was only read
	inspector, ok := store.As[store.Inspector](st)
	if !ok {
		return nil, errors.New("the store does not show it")
	}
	return inspector.Inspect(ctx)
}

// notef keeps what the driver itself finds wrong.
func (x *experiment) notef(kind check.Kind, run event.RunID, format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.found = append(x.found, check.Violation{Kind: kind, Run: run, What: fmt.Sprintf(format, args...)})
}
