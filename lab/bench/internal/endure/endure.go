package endure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// experiment is one execution of the command.
type experiment struct {
	*options
	stderr io.Writer
	self   string // path of this program
	guard  *fleet.Guard
	site   *fleet.Site
	store  store.Store
	client *workflow.Client
	began  time.Time

	mu       sync.Mutex
	journeys map[event.RunID]*journey
	started  int
	excused  map[event.RunID]string // the deleted key, by the root of the affected runs
	damaged  []string               // deleted keys
	shared   int                    // number of deleted keys that belong to no run
	problems []string
	deploys  int
	kills    int
	bounces  int
	fixes    int
	seen     map[string]bool // keys that were considered for deletion
}

func newExperiment(o *options, stderr io.Writer) *experiment {
	return &experiment{
		options: o, stderr: stderr, journeys: map[event.RunID]*journey{}, excused: map[event.RunID]string{}, seen: map[string]bool{},
	}
}

// chance returns a separate random source for a part of the experiment.
func (e *experiment) chance(part uint64) *rand.Rand { return rand.New(rand.NewPCG(e.seed, part)) }

// run executes the experiment. It returns an error if the experiment could not be carried out.
func (e *experiment) run(ctx context.Context) error {
	var err error
	if e.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if e.guard, err = fleet.NewGuard(e.self, roleGuard); err != nil {
		return err
	}
	defer func() { _ = e.guard.Close() }() // all its processes have ended
	if e.site, err = fleet.Open(ctx, e.guard, e.dir, "redis", fleet.Settings("always")...); err != nil {
		return err
	}
	defer e.site.Close()
	var disconnect func()
	if e.store, e.client, disconnect, err = e.site.Connect(ctx, e.dir); err != nil {
		return err
	}
	defer disconnect()
	e.began = time.Now()
	return e.endure(ctx)
}

// endure disturbs the fleet for the requested time, and then waits until every run has ended,
// except for excused ones. The fleet is stopped when it returns.
func (e *experiment) endure(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	harm, calm := context.WithTimeout(ctx, e.duration)
	defer calm()
	var crew sync.WaitGroup
	part := func(f func() error) {
		crew.Go(func() {
			if err := f(); err != nil {
				fail(err)
			}
		})
	}
	leave := make(chan struct{})
	part(func() error { return e.deployBuilds(ctx, harm, leave) })
	part(func() error { return e.bounceServer(ctx, harm) })
	part(func() error { return e.deleteKeys(harm) })
	part(func() error { return e.keepUp(ctx, leave) })
	e.drive(ctx, harm)
	calm()
	close(leave)
	crew.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// problemf records a problem.
func (e *experiment) problemf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// progress describes the state of the experiment.
func (e *experiment) progress() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := 0
	for _, j := range e.journeys {
		if j.done {
			ended++
		}
	}
	return fmt.Sprintf("%4ds  %d of %d runs have ended; %d deploys (%d by SIGKILL), %d bounces, %d keys deleted (%d of the store itself), %d repairs",
		int(time.Since(e.began).Seconds()), ended, e.started, e.deploys, e.kills, e.bounces, len(e.damaged), e.shared, e.fixes)
}

// pause waits and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
		return true
	case <-ctx.Done():
		return false
	}
}
