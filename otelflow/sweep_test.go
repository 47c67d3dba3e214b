package otelflow_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// view is the store as one process uses it.
type view struct {
	store.Store
	entries store.Entries
	store.Lister
	late *atomic.Int64 // nanoseconds by which the clock is ahead

	lists atomic.Int64
	read  func()                      // called after each read of entries, if set
	list  func(context.Context) error // called before each list, if set
	load  func(event.RunID) error     // called before each read of a log, if set
}

func (v *view) Clock() store.Clock { return lateClock{v.Store.Clock(), v.late} }

type lateClock struct {
	store.Clock
	late *atomic.Int64
}

func (c lateClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.late.Load())) }

func (v *view) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	got, err := v.entries.Entries(ctx, q)
	if v.read != nil {
		v.read()
	}
	return got, err
}

func (v *view) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	return v.entries.WriteEntry(ctx, w)
}

func (v *view) List(ctx context.Context, q store.Query) (store.Page, error) {
	v.lists.Add(1)
	if v.list != nil {
		if err := v.list(ctx); err != nil {
			return store.Page{}, err
		}
	}
	return v.Lister.List(ctx, q)
}

func (v *view) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	if v.load != nil {
		if err := v.load(loads[0].Run); err != nil {
			return nil, err
		}
	}
	return v.Store.Load(ctx, loads)
}

// sweeper is a process that exports the spans of dead processes.
type sweeper struct {
	*view
	*otelflow.Telemetry
	*receiver
}

func (s *sweeper) sweep(ctx context.Context) error { return s.Sweep(ctx, s.view) }

// newSweepers returns two processes, in a store with the runs and the entry of a dead one.
func newSweepers(t *testing.T) (x, y *sweeper) {
	t.Helper()
	s := newSite(t) // exports nothing
	if _, err := s.start(1).Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := otelflow.Die(t.Context(), s.store); err != nil {
		t.Fatal(err)
	}
	late := new(atomic.Int64)
	process := func() *sweeper {
		r := newReceiver(t)
		return &sweeper{
			&view{Store: s.store, entries: s.store.(store.Entries), Lister: s.store.(store.Lister), late: late},
			otelflow.New(otelflow.Config{TracerProvider: r.provider(), Logger: slog.New(slog.DiscardHandler)}), r,
		}
	}
	return process(), process()
}

// exported returns the number of spans that the process has exported.
func (s *sweeper) exported() int {
	all, _ := s.receiver.spans()
	return len(all)
}

func TestOPS4_OneProcessExportsTheSpansOfADeadOne(t *testing.T) {
	x, y := newSweepers(t)
	var both, done sync.WaitGroup
	both.Add(2)
	var failed [2]error
	for i, p := range []*sweeper{x, y} {
		p.read = func() { both.Done(); both.Wait() } // both read the entry before one claims it
		done.Go(func() { failed[i] = p.sweep(t.Context()) })
	}
	done.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatal(err)
	}
	if n := x.lists.Load() + y.lists.Load(); n != 1 || (x.exported() == 0) == (y.exported() == 0) {
		t.Errorf("the processes have listed the runs %d times and exported %d and %d spans, want one process to do so", n, x.exported(), y.exported())
	}
	x.read = nil
	if err := x.sweep(t.Context()); err != nil || x.lists.Load()+y.lists.Load() != 1 {
		t.Errorf("the entry remains after the export (error %v)", err)
	}
}

func TestOPS4_AProcessThatDiesDuringASweepIsReplaced(t *testing.T) {
	x, y := newSweepers(t)
	ctx, die := context.WithCancel(t.Context())
	x.list = func(ctx context.Context) error { die(); return ctx.Err() }
	if err := x.sweep(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the sweep ended with %v, want %v", err, context.Canceled)
	}
	if err := y.sweep(t.Context()); err != nil || y.lists.Load() != 0 {
		t.Errorf("another process sweeps while the claim is fresh (error %v)", err)
	}
	y.late.Add(int64(30 * time.Second))
	if err := y.sweep(t.Context()); err != nil || y.exported() == 0 {
		t.Errorf("the process that replaces a dead one has exported %d spans (error %v)", y.exported(), err)
	}
}

func TestOPS4_ALongSweepRenewsItsClaim(t *testing.T) {
	x, y := newSweepers(t)
	loads := 0
	x.load = func(event.RunID) error {
		loads++
		x.late.Add(int64(20 * time.Second))
		if err := y.sweep(t.Context()); err != nil || y.lists.Load() != 0 {
			t.Errorf("after %d reads, another process sweeps as well (error %v)", loads, err)
		}
		return nil
	}
	if err := x.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if loads < 2 || x.exported() == 0 {
		t.Errorf("the sweep has read %d logs and exported %d spans", loads, x.exported())
	}
}

var errUnavailable = errors.New("unavailable")

// named returns how many spans with a name the process has exported.
func (s *sweeper) named(name string) (n int) {
	all, _ := s.receiver.spans()
	for _, one := range all {
		if one.Name == name {
			n++
		}
	}
	return n
}

func TestOPS4_ALaterSweepExportsARunWhoseLogCouldNotBeRead(t *testing.T) {
	x, y := newSweepers(t)
	var unread event.RunID
	x.load = func(id event.RunID) error {
		if unread == "" {
			unread = id
		}
		if id == unread {
			return errUnavailable
		}
		return nil
	}
	if err := x.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.late.Add(int64(30 * time.Second))
	if err := y.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := x.exported(), y.exported(); a == 0 || b == 0 || y.lists.Load() != 0 {
		t.Errorf("the process that could not read a log has exported %d spans, and the next one %d; it has listed the runs %d times", a, b, y.lists.Load())
	}
	for _, span := range []string{"run shop.order", "run shop.shipment"} {
		if n := x.named(span) + y.named(span); n != 1 {
			t.Errorf("span %s was exported %d times, want once", span, n)
		}
	}
	y.late.Add(int64(time.Minute))
	if err := x.sweep(t.Context()); err != nil || x.lists.Load() != 1 {
		t.Errorf("the entry remains after the export (error %v)", err)
	}
}

func TestOPS4_ASweepGivesUpALogThatCannotBeRead(t *testing.T) {
	x, _ := newSweepers(t)
	reads := 0
	var last event.RunID
	x.load = func(id event.RunID) error { reads++; last = id; return errUnavailable }
	const tries = 10
	for n := range tries {
		if err := x.sweep(t.Context()); (err != nil) != (n == tries-1) || err != nil && !strings.Contains(err.Error(), string(last)) {
			t.Errorf("sweep %d: %v, want an error that names the runs after %d sweeps only", n+1, err, tries)
		}
		x.late.Add(int64(30 * time.Second))
	}
	before := reads
	if err := x.sweep(t.Context()); err != nil || reads != before || before != 2*tries {
		t.Errorf("%d reads of two logs in %d sweeps, %d in one more (error %v)", before, tries, reads-before, err)
	}
}

// TestOPS4_TheLogOfAnInheritedRunIsReadAgain proves that a worker that ends a run exports the events
// of others even if it could not read the log at once.
func TestOPS4_TheLogOfAnInheritedRunIsReadAgain(t *testing.T) {
	s := newSite(t)
	run := s.start(1)
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop()
	var log []event.Event
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
	}
	r := newReceiver(t)
	o := otelflow.New(otelflow.Config{TracerProvider: r.provider(), Logger: slog.New(slog.DiscardHandler)}.Quick())
	reads, read := 0, make(chan struct{})
	v := &view{Store: s.store, entries: s.store.(store.Entries), Lister: s.store.(store.Lister), late: new(atomic.Int64)}
	v.load = func(event.RunID) error {
		if reads++; reads <= 3 {
			return errUnavailable
		}
		close(read)
		return nil
	}
	stop := o.Worker(observe.Worker{Name: "w", Store: v})
	begun := 1 + slices.IndexFunc(log, func(e event.Event) bool { return e.Type == event.StepCompleted })
	o.Run(observe.Run{ID: run.ID(), Workflow: order.Name(), Queue: "default", Log: log[:begun]}).Committed(observe.Commit{Events: log[begun:]})
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Fatal("the log was not read again")
	}
	stop()
	all, _ := r.spans()
	attempts := 0
	for _, one := range all {
		if one.Name == "attempt shop.reserve" {
			attempts++
		}
	}
	if attempts != 2 {
		t.Errorf("%d attempts of the part that others have committed were exported, want 2:\n%s", attempts, tree(all))
	}
}
