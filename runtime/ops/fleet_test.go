package ops_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	packing  = store.Route{Queue: "default", Workflow: "shop.pack"}
	invoices = store.Route{Queue: "slow", Workflow: "shop.invoice"}
)

// yard is a store with three partitions. The test controls its clock.
type yard struct {
	*testing.T
	clock  *storetest.Clock
	st     *memstore.Store
	client *workflow.Client
	ids    *storetest.IDs
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{T: t, clock: storetest.NewClock(), ids: &storetest.IDs{}}
	y.st = memstore.NewWith(memstore.Config{Clock: y.clock, Partitions: 3})
	y.client = workflow.NewClient(y.st, workflow.ClientConfig{})
	t.Cleanup(func() {
		_ = y.client.Close()
		_ = y.st.Close()
	})
	return y
}

func (y *yard) check(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) session(partition int, worker, build string, routes ...store.Route) store.SessionID {
	y.Helper()
	s := store.Session{Partition: partition, ID: y.ids.Session(), Worker: worker, TTL: time.Minute, Routes: routes, Fingerprint: build}
	y.check(y.st.OpenSession(y.Context(), s))
	return s.ID
}

func (y *yard) start(partition uint16, c store.Route, change ...func(*store.Create)) *storetest.Log {
	y.Helper()
	l := storetest.NewLog(y.ids, y.clock, y.ids.Run(y.clock.Now(), partition), event.Spec{Workflow: c.Workflow, Queue: c.Queue})
	create := l.Create()
	for _, f := range change {
		f(&create)
	}
	got, err := y.st.Create(y.Context(), []store.Create{create})
	y.check(err)
	y.check(got[0].Err)
	return l
}

// claim claims a ready run of a partition for a session.
func (y *yard) claim(partition int, s store.SessionID, c store.Route) store.Fence {
	y.Helper()
	got, err := y.st.Claim(y.Context(), store.Claim{Partition: partition, Session: s, Token: event.NewToken(), Routes: []store.Route{c}, Max: 1})
	y.check(err)
	if len(got.Runs) != 1 {
		y.Fatalf("claimed %d runs, want 1", len(got.Runs))
	}
	return got.Runs[0].Fence
}

func (y *yard) commit(l *storetest.Log, c store.Commit) {
	y.Helper()
	got, err := y.st.Commit(y.Context(), []store.Commit{c})
	y.check(err)
	y.check(got[0].Err)
	l.Accept(c)
}

// queue returns the QueueInfo of a route.
func (y *yard) queue(c store.Route) ops.QueueInfo {
	y.Helper()
	f, err := ops.New(y.client).Fleet(y.Context())
	y.check(err)
	for _, q := range f.Queues {
		if q.Queue == c.Queue && q.Workflow == c.Workflow {
			return q
		}
	}
	y.Fatalf("the fleet has no %v: %+v", c, f.Queues)
	return ops.QueueInfo{}
}

func TestOPS1_TheSessionsOfAWorkerAreOneWorker(t *testing.T) {
	y := newYard(t)
	at := y.clock.Now()
	for partition := range 3 {
		y.session(partition, "web/1", "v1", packing, invoices)
	}
	y.session(0, "web/1", "v2", packing) // a worker that was restarted under the same name
	y.session(1, "client", "")           // a client that ends a run itself
	y.clock.Advance(30 * time.Second)
	y.session(1, "slow/7", "v1", invoices)
	for partition := range uint16(3) {
		y.start(partition, invoices)
	}
	y.claim(1, y.session(1, "slow/7", "v1", invoices), invoices)
	want := []ops.WorkerInfo{
		{Name: "slow/7", Build: "v1", Serves: []store.Route{invoices}, Sessions: 2, Live: 2, Lease: at.Add(90 * time.Second), Running: 1},
		{Name: "web/1", Build: "v1", Serves: []store.Route{packing, invoices}, Sessions: 3, Live: 3, Lease: at.Add(time.Minute)},
		{Name: "web/1", Build: "v2", Serves: []store.Route{packing}, Sessions: 1, Live: 1, Lease: at.Add(time.Minute)},
	}
	f, err := ops.New(y.client).Fleet(t.Context())
	if diff := cmp.Diff(want, f.Workers); diff != "" || err != nil {
		t.Errorf("workers: %v (-want +got):\n%s", err, diff)
	}
	if q := y.queue(invoices); q.Workers != 2 || q.Ready != 2 || q.Running != 1 {
		t.Errorf("queue: %+v, want two workers, two runs that are ready, and one that runs", q)
	}
	y.clock.Advance(45 * time.Second) // the leases of the sessions opened first expire
	if q := y.queue(invoices); q.Workers != 1 {
		t.Errorf("queue: %+v, want one worker: the others are silent", q)
	}
	if q := y.queue(packing); q.Workers != 0 {
		t.Errorf("queue: %+v, want no worker", q)
	}
}

func TestOPS1_TheOldestReadyRunIsKnownWithItsTime(t *testing.T) {
	y := newYard(t)
	at := y.clock.Now()
	later := y.start(1, packing)
	if q := y.queue(packing); q.OldestRun != later.Run || !q.Oldest.Equal(at) {
		t.Errorf("a run that is new: %+v, want %s since %v", q, later.Run, at)
	}
	s := y.session(1, "web/1", "v1", packing)
	fence := y.claim(1, s, packing)
	if q := y.queue(packing); q.OldestRun != "" || !q.Oldest.IsZero() {
		t.Errorf("while none is ready: %+v", q)
	}
	y.clock.Advance(10 * time.Second)
	due := at.Add(20 * time.Second)
	c := later.Commit(fence, later.Sleep(due)...)
	c.Effect, c.Status, c.Due = store.EffectPark, event.StatusSleeping, due
	y.commit(later, c)
	y.clock.Advance(30 * time.Second)
	_, err := y.st.Due(t.Context(), 1, 10)
	y.check(err)
	if q := y.queue(packing); q.OldestRun != later.Run || !q.Oldest.Equal(due) {
		t.Errorf("a run that slept: %+v, want it since it was due, at %v", q, due)
	}
	first := y.start(2, packing, func(c *store.Create) { c.Priority = 7 })
	if q := y.queue(packing); q.OldestRun != later.Run {
		t.Errorf("with a run of a higher priority: %+v, want the one that has waited for longer", q)
	}
	y.clock.Advance(time.Second)
	fence = y.claim(1, s, packing)
	c = later.Commit(fence, later.Work()...)
	c.Effect, c.Status = store.EffectYield, event.StatusRunning
	y.commit(later, c)
	if q := y.queue(packing); q.OldestRun != first.Run || q.Ready != 2 {
		t.Errorf("once the other one has got further: %+v, want %s", q, first.Run)
	}
}

// The test proves that a run with a delayed start waits since its start time, and not since its
// creation: a queue with such runs would seem to be stuck otherwise.
func TestOPS1_ADelayedRunWaitsSinceItsStart(t *testing.T) {
	y := newYard(t)
	at := y.clock.Now()
	flow := shim.NewWorkflow[int, int]("yard.delayed", "n", shim.WorkflowPolicy{})
	run, err := flow.Start(t.Context(), y.client, 1, workflow.WithDelay(time.Hour))
	y.check(err)
	y.clock.Advance(61 * time.Minute)
	for partition := range 3 {
		_, err := y.st.Due(t.Context(), partition, 10)
		y.check(err)
	}
	q := y.queue(store.Route{Queue: "default", Workflow: flow.Name()})
	if want := at.Add(time.Hour); q.OldestRun != run.ID() || !q.Oldest.Equal(want) {
		t.Errorf("queue: got %s since %v, want %s since %v", q.OldestRun, q.Oldest, run.ID(), want)
	}
}
