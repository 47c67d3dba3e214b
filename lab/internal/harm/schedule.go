package harm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Schedule is the timeline of an experiment.
type Schedule struct {
	For    time.Duration // the fleet is harmed
	Within time.Duration // the experiment is given up after that; 0 for no bound
	Fleet  Fleet
	Faults []Fault
	// Forgiving reports whether workers may fail to start, because the servers are harmed.
	Forgiving bool
}

// Fleet describes the workers and how they are harmed, each on its own. A worker is replaced when it
// has ended.
type Fleet struct {
	Workers int
	// After and Spread are the time between two faults of a worker: After and a random part of
	// Spread. Zero is for no faults. The first fault of place n comes after n times Stagger instead,
	// unless Stagger is zero.
	After, Spread, Stagger time.Duration
	// Kill, Stop and Stall are the shares of the faults: SIGKILL, SIGTERM, and SIGSTOP for StallFor
	// and a random part of StallSpread.
	Kill, Stop, Stall     int
	StallFor, StallSpread time.Duration
	// Down is the maximum time until a worker is replaced.
	Down time.Duration
	// Args returns arguments of a worker. build is the number of workers that were hired on purpose
	// for its place.
	Args func(build int) []string
}

// Names of the faults of workers.
const (
	Kills  = "kills"
	Stops  = "stops"
	Stalls = "stalls"
)

// Fault is a disturbance that is repeated while the fleet is harmed.
type Fault struct {
	Name string
	// After and Spread are the time before each one: After and a random part of Spread.
	After, Spread time.Duration
	Times         int // 0 for no bound
	// Always repeats it until the fleet is dismissed.
	Always bool
	// Do is the disturbance. Its waits end with harm, everything that must be put back uses ctx.
	Do func(ctx, harm context.Context, r *rand.Rand) error
	// Undo is called after the last one. It may be nil.
	Undo func(ctx context.Context)
}

// The causes of the ends of contexts.
var (
	errLate = errors.New("the runs did not end in time")
	errOver = errors.New("the experiment is over")
)

// Play harms the fleet until drive has returned or the time is over. The fleet is stopped when it
// returns. It returns an error if the experiment could not be carried out.
func (x *Experiment) Play(ctx context.Context, s *Schedule, drive func(ctx, harm context.Context)) error {
	x.forgiving = s.Forgiving
	first, err := x.hireAll(&s.Fleet)
	if err != nil {
		return err
	}
	x.Began = time.Now()
	if s.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Within, errLate)
		defer cancel()
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	harm, calm := context.WithTimeout(ctx, s.For)
	defer calm()
	work, leave := context.WithCancelCause(ctx) // until the fleet is dismissed
	defer leave(nil)
	var crew sync.WaitGroup
	part := func(f func() error) {
		crew.Go(func() {
			if err := f(); err != nil {
				fail(err)
			}
		})
	}
	for n := range first {
		part(func() error { return x.occupy(work, harm, &s.Fleet, n+1, first[n]) })
	}
	for n, f := range s.Faults {
		until := harm
		if f.Always {
			until = work
		}
		part(func() error { return x.inflict(ctx, until, &f, x.Chance(uint64(2+n))) })
	}
	drive(ctx, harm)
	calm()
	leave(errOver)
	crew.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errLate) {
		return err
	}
	return nil // active runs are reported as lost
}

// hireAll starts the first workers. The time of the disturbances begins after they have started,
// because starting takes longer than that on a busy machine.
func (x *Experiment) hireAll(f *Fleet) ([]*Process, error) {
	all, errs := make([]*Process, f.Workers), make([]error, f.Workers)
	var hiring sync.WaitGroup
	for n := range all {
		hiring.Go(func() { all[n], errs[n] = x.Hire(fmt.Sprintf("worker-%d.1", n+1), f.Args(1)...) })
	}
	hiring.Wait()
	return all, errors.Join(errs...)
}

// occupy keeps one place of the fleet occupied and disturbs its worker, at first p, until harm ends.
// The last worker then works until work ends. It is killed if the experiment was given up.
func (x *Experiment) occupy(work, harm context.Context, f *Fleet, place int, p *Process) error {
	r := x.Chance(100 + uint64(place))
	next := f.Stagger * time.Duration(place)
	for generation, build := 2, 1; ; generation++ {
		for alive := true; alive; {
			if next == 0 {
				next = f.After + Random(r, f.Spread)
			}
			var fault <-chan time.Time
			if f.After > 0 {
				fault = time.After(next)
			}
			select {
			case <-work.Done():
				if errors.Is(context.Cause(work), errOver) {
					x.Dismiss(p)
				} else {
					x.Kill(p)
				}
				return nil
			case <-p.Done():
				x.bury(p)
				alive = false
			case <-harm.Done():
				select { // an undisturbed period
				case <-work.Done():
				case <-p.Done():
				}
			case <-fault:
				if next, alive = 0, x.hurt(harm, f, p, r); !alive {
					build++
				}
			}
		}
		Pause(harm, Random(r, f.Down))
		var err error
		if p, err = x.Hire(fmt.Sprintf("worker-%d.%d", place, generation), f.Args(build)...); err != nil {
			return err
		}
	}
}

// hurt performs one disturbance and reports whether the worker is still running.
func (x *Experiment) hurt(harm context.Context, f *Fleet, p *Process, r *rand.Rand) (alive bool) {
	switch n := r.IntN(f.Kill + f.Stop + f.Stall); {
	case n < f.Kill:
		x.Kill(p)
		x.add(Kills)
	case n < f.Kill+f.Stop:
		x.Dismiss(p)
		x.add(Stops)
	default:
		x.stall(harm, p, f.StallFor+Random(r, f.StallSpread))
		x.add(Stalls)
		return true
	}
	return false
}

// inflict repeats a fault until its time is over.
func (x *Experiment) inflict(ctx, until context.Context, f *Fault, r *rand.Rand) error {
	for n := 0; (f.Times == 0 || n < f.Times) && Pause(until, f.After+Random(r, f.Spread)); n++ {
		if err := f.Do(ctx, until, r); err != nil {
			return err
		}
		x.add(f.Name)
	}
	if f.Undo != nil {
		f.Undo(ctx)
	}
	return nil
}

// Restarts is the name of [Experiment.RestartServer].
const Restarts = "restarts"

// RestartServer returns a fault that kills one of the servers, and restarts it with its data after a
// random part of down.
func (x *Experiment) RestartServer(after, spread, down time.Duration) Fault {
	return Fault{Name: Restarts, After: after, Spread: spread, Do: func(ctx, _ context.Context, r *rand.Rand) error {
		server := x.Servers[r.IntN(len(x.Servers))]
		if err := server.Crashed(); err != nil {
			return err
		}
		server.Kill()
		Pause(ctx, Random(r, down))
		if err := server.Start(ctx); err != nil {
			return fmt.Errorf("restart server %s: %w", strconv.Quote(server.Addr), err)
		}
		return nil
	}}
}
