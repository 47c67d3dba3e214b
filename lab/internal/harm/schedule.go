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
	For    time.Duration // time for which the fleet is disturbed
	Within time.Duration // time after which the experiment is aborted; 0 for no limit
	Fleet  Fleet
	Faults []Fault
	// Forgiving reports whether workers may fail to start, because the servers are disturbed as
	// well.
	Forgiving bool
}

// Fleet describes the workers and their faults. Each place of the fleet has one worker at a time,
// with its own faults. A worker that has ended is replaced.
type Fleet struct {
	Workers int
	// After and Spread determine the time between two faults of a worker, which is After plus a
	// random part of Spread. If both are zero, there are no faults. If Stagger is not zero, the
	// first fault of place n occurs after n times Stagger instead.
	After, Spread, Stagger time.Duration
	// Kill, Stop and Stall are the relative frequencies of the faults. They are SIGKILL, SIGTERM,
	// and SIGSTOP for the duration StallFor plus a random part of StallSpread.
	Kill, Stop, Stall     int
	StallFor, StallSpread time.Duration
	// Down is the maximum time until a worker that has ended is replaced.
	Down time.Duration
	// Args returns additional arguments of a worker. build is the number of workers of the same
	// place that were replaced deliberately.
	Args func(build int) []string
}

// The names of the faults of workers.
const (
	Kills  = "kills"
	Stops  = "stops"
	Stalls = "stalls"
)

// Fault is a kind of failure that is injected repeatedly while the fleet is disturbed.
type Fault struct {
	Name string
	// After and Spread determine the time before each repetition, which is After plus a random part
	// of Spread.
	After, Spread time.Duration
	Times         int // maximum number of repetitions; 0 for no limit
	// Always repeats the fault until the workers are stopped at the end.
	Always bool
	// Do performs the disturbance. It stops waiting when harm ends, and must use ctx to undo its
	// effect.
	Do func(ctx, harm context.Context, r *rand.Rand) error
	// Undo is called after the last repetition. It may be nil.
	Undo func(ctx context.Context)
}

// The causes with which contexts are canceled.
var (
	errLate = errors.New("the runs did not end in time")
	errOver = errors.New("the experiment is over")
)

// Play disturbs the fleet until drive has returned or the time is over, and then stops the workers.
// It returns an error if the experiment could not be executed.
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
	work, leave := context.WithCancelCause(ctx) // The context is valid until the workers are stopped.
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
	return nil // Runs that are active at the end are reported as lost.
}

// hireAll starts the first workers. The time for the faults begins only after that, because on a
// busy machine the start of the workers may take longer than the whole experiment.
func (x *Experiment) hireAll(f *Fleet) ([]*Process, error) {
	all, errs := make([]*Process, f.Workers), make([]error, f.Workers)
	var hiring sync.WaitGroup
	for n := range all {
		hiring.Go(func() { all[n], errs[n] = x.Hire(fmt.Sprintf("worker-%d.1", n+1), f.Args(1)...) })
	}
	hiring.Wait()
	return all, errors.Join(errs...)
}

// occupy keeps one place of the fleet occupied and performs the faults of its worker until harm
// ends. The first worker is p. The last worker continues until work ends. If the experiment was
// aborted, occupy kills it.
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
				select { // Wait for the time of the next fault.
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

// hurt performs one fault and reports whether the worker is still running.
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

// inflict repeats a fault. It returns when the context until ends.
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

// Restarts is the name of the fault that [Experiment.RestartServer] returns.
const Restarts = "restarts"

// RestartServer returns a fault that kills one of the servers. It restarts the server with its data
// after a random part of down.
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
