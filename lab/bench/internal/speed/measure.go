package speed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// patience is the maximum duration of a measurement. After that time the measurement fails. The
// error describes the event for which it waits.
const patience = 10 * time.Minute

// measure executes a workload once.
func measure(ctx context.Context, t target, w *workload, o *options, p *progress) (r *Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	debug.FreeOSMemory() // Return the memory of the previous workload to the system.
	s, err := newStage(ctx, fail, t, w, o, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m := &measurement{stage: s, w: w, r: &Result{Workload: w.name, Store: t.name(), Unit: w.unit, Count: 1}}
	if err := m.execute(ctx, w.begin()); err != nil {
		return nil, err
	}
	return m.r, nil
}

// measurement is one execution of a workload with its intermediate results.
type measurement struct {
	*stage
	w      *workload
	r      *Result
	shape  shape
	limits []float64
	before int64 // size of the store in bytes before the first round

	total     tally
	spent     reading
	commits   int
	latencies []time.Duration
}

func (m *measurement) execute(ctx context.Context, c course) error {
	m.progress.sayf("%s: warm-up", m.w.name)
	if err := c.warm(ctx, m.stage); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	m.shape = m.tap.now().shape()
	if m.o.limit > 0 {
		if _, err := limit(ctx, m.bed, m.shape, m.o.limit/10); err != nil {
			return err
		}
		if err := m.limit(ctx); err != nil {
			return err
		}
	}
	var err error
	if m.before, err = m.bed.bytes(ctx); err != nil {
		return err
	}
	memory := watchMemory()
	rounds := m.w.split(m.size.runs)
	for i, runs := range rounds {
		m.progress.sayf("%s: round %d of %d", m.w.name, i+1, len(rounds))
		if err := m.round(ctx, c, i, runs, memory); err != nil {
			memory.end()
			return fmt.Errorf("round %d of %d: %w", i+1, len(rounds), err)
		}
	}
	m.r.PeakMemoryMB = float64(memory.end()) / 1e6
	if err := m.summarize(ctx); err != nil {
		return err
	}
	m.progress.sayf("%s: check of the results", m.w.name)
	if err := c.verify(ctx, m.stage, m.r); err != nil {
		return fmt.Errorf("check the results: %w", err)
	}
	return nil
}

// round executes one round and adds its results.
func (m *measurement) round(ctx context.Context, c course, number, runs int, memory *memoryWatch) error {
	m.tap.restart()
	before, err := m.read(ctx)
	if err != nil {
		return err
	}
	memory.resume()
	start := time.Now()
	t, err := c.round(ctx, m.stage, number, runs)
	if t.elapsed == 0 {
		t.elapsed = time.Since(start)
	}
	memory.pause()
	if err != nil {
		return err
	}
	after, err := m.read(ctx)
	if err != nil {
		return err
	}
	counts := m.tap.now()
	m.spent = m.spent.plus(after.minus(before))
	m.commits += counts.commits
	m.total.units += t.units
	m.total.runs += t.runs
	m.total.appends += t.appends
	m.total.elapsed += t.elapsed
	m.latencies = append(m.latencies, t.latencies...)
	if counts.commits > 0 || counts.creates > 0 {
		m.shape = counts.shape()
	}
	if m.o.limit > 0 {
		return m.limit(ctx)
	}
	return nil
}

// limit measures the limit once.
func (m *measurement) limit(ctx context.Context) error {
	// Collect garbage before and after, so that garbage of the workload does not affect the limit,
	// and vice versa.
	runtime.GC()
	perSecond, err := limit(ctx, m.bed, m.shape, m.o.limit)
	if err != nil {
		return err
	}
	runtime.GC()
	m.limits = append(m.limits, perSecond)
	return nil
}
