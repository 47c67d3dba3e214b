package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/peer"
	"github.com/flowgen/flowgen/lab/versus/internal/server"
	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

// patience is the maximum time of a measurement in addition to its duration.
const patience = time.Minute

// Measure measures a workload with a system, on an empty store. pid is the process of the server, or
// 0 if there is none.
func Measure(ctx context.Context, s *peer.System, w *Workload, e peer.Env, o Options, pid int) (r *Result, err error) {
	limit := o.Duration + patience
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the measurement has not ended within %s", limit))
	defer cancel()
	e.Probe, e.Concurrency = &task.Probe{}, o.Concurrency
	engine, err := s.Open(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.ID(), err)
	}
	defer func() { err = errors.Join(err, engine.Close(context.WithoutCancel(ctx))) }()
	m := &measurement{system: s, w: w, o: o, engine: engine, probe: e.Probe, pid: pid}
	load := m.together
	if w.alone {
		load = m.oneByOne
	}
	span, err := load(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	return m.summarize(span), nil
}

// measurement measures a workload with an engine.
type measurement struct {
	system *peer.System
	w      *Workload
	o      Options
	engine peer.Engine
	probe  *task.Probe
	pid    int

	mu    sync.Mutex
	next  int        // number of the next run
	ended []*started // runs whose steps have been executed
}

// started is a run of a measurement.
type started struct {
	in    task.Input
	run   peer.Run
	watch *task.Watch
	took  time.Duration // from the start until the result was there; 0 if it was not awaited
}

// span is the time that is measured.
type span struct {
	before, after reading
	runs          []*started // that have ended in it
	steps         int        // that were executed in it
}

// oneByOne executes one run to prepare, and then runs one by one. It measures until the duration is
// over and the results of all runs are in the store.
func (m *measurement) oneByOne(ctx context.Context) (*span, error) {
	if err := m.one(ctx); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	if err := m.result(ctx, m.ended[0]); err != nil {
		return nil, err
	}
	var s span
	var err error
	if s.before, err = m.read(); err != nil {
		return nil, err
	}
	for first := true; first || time.Since(s.before.at) < m.o.Duration; first = false {
		if err := m.one(ctx); err != nil {
			return nil, err
		}
	}
	s.runs = m.ended[1:]
	s.steps = len(s.runs) * m.w.Steps
	if err := m.result(ctx, s.runs[len(s.runs)-1]); err != nil {
		return nil, err
	}
	s.after, err = m.read()
	return &s, err
}

// together executes as many runs at the same time as the workload has. It measures from the end of
// as many runs, so that neither the first nor the last runs count.
func (m *measurement) together(ctx context.Context) (*span, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	clients := m.o.Concurrency * max(m.w.backlog, 1)
	begun, over := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for {
				if err := m.one(ctx); err != nil {
					fail(err)
					return
				}
				m.mu.Lock()
				if len(m.ended) == clients {
					close(begun)
				}
				m.mu.Unlock()
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	s, err := m.window(ctx, begun)
	if err != nil {
		fail(err)
	}
	close(over)
	wg.Wait()
	return s, context.Cause(ctx)
}

// window measures from the moment when begun is closed, until the duration is over and a run has
// ended.
func (m *measurement) window(ctx context.Context, begun <-chan struct{}) (*span, error) {
	select {
	case <-begun:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var s span
	first, executed, err := m.counts(&s.before)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := first; last == first || time.Since(s.before.at) < m.o.Duration; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		last = len(m.ended)
		m.mu.Unlock()
	}
	last, after, err := m.counts(&s.after)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.runs, s.steps = slices.Clone(m.ended[first:last]), after-executed
	return &s, nil
}

// counts reads the clock and the CPU times. It returns the number of runs that have ended, and of
// steps that have been executed.
func (m *measurement) counts(r *reading) (runs, steps int, err error) {
	*r, err = m.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ended), m.probe.Executed(), err
}

// one executes a run until its steps are executed and, if the latency of single runs is measured
// and the system has a call that waits, until the result is there.
func (m *measurement) one(ctx context.Context) error {
	m.mu.Lock()
	m.next++
	r := &started{in: task.NewInput(m.next, m.w.Steps, m.w.parallel)}
	m.mu.Unlock()
	r.watch = m.probe.Watch(r.in)
	begin := time.Now()
	var err error
	if r.run, err = m.engine.Start(ctx, r.in); err != nil {
		return fmt.Errorf("start run %d: %w", r.in.Run, err)
	}
	select {
	case <-r.watch.Done:
	case <-ctx.Done():
		return fmt.Errorf("wait for the steps of run %d: %w", r.in.Run, context.Cause(ctx))
	}
	if !m.w.Throughput && m.system.Waits {
		if err := m.result(ctx, r); err != nil {
			return err
		}
		r.took = time.Since(begin)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = append(m.ended, r)
	return nil
}

// check waits for the results of all runs and compares them, as many at once as execute at once.
func (m *measurement) check(ctx context.Context) error {
	if n := m.probe.Wrong(); n > 0 {
		return fmt.Errorf("%d steps got data of another run", n)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range m.o.Concurrency {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(m.ended); i = int(next.Add(1)) - 1 {
				if err := m.result(ctx, m.ended[i]); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// result waits for the result of a run, unless it was there before, and compares it.
func (m *measurement) result(ctx context.Context, r *started) error {
	if r.run == nil {
		return nil
	}
	got, err := r.run.Result(ctx)
	if err != nil {
		return fmt.Errorf("result of run %d: %w", r.in.Run, err)
	}
	if m.system.Kind != peer.Jobs && got != r.in.Data {
		return fmt.Errorf("run %d returned %q, want %q", r.in.Run, got, r.in.Data)
	}
	r.run = nil
	return nil
}

// reading contains the clock and the CPU times at a moment.
type reading struct {
	at             time.Time
	worker, server time.Duration
}

func (m *measurement) read() (reading, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return reading{}, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	r := reading{at: time.Now(), worker: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	if m.pid == 0 {
		return r, nil
	}
	var err error
	r.server, err = server.CPU(m.pid)
	return r, err
}
