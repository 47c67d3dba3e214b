package workflowtest

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// workerStore is the store of an Env as one incarnation of the worker uses it. Requests that the
// worker sends after it was killed do not arrive.
type workerStore struct {
	inner       store.Store
	incarnation *incarnation
}

var (
	_ store.Store         = (*workerStore)(nil)
	_ store.StepDataStore = (*workerStore)(nil)
)

// send executes one request. Every request that succeeds is a crash point, at which the worker may
// be killed before the response arrives. A request that writes is also a crash point before it
// arrives.
func send[T any](l *workerStore, r request, op func() (T, error)) (T, error) {
	var zero T
	e := l.incarnation.env
	if l.incarnation.dead.Load() || r.writes && e.reach(l.incarnation, r, before) {
		return zero, store.ErrClosed
	}
	v, err := op()
	if err == nil && r.did != nil && !r.did(v) {
		return v, nil // the request had no effect, so it is no crash point
	}
	if l.incarnation.dead.Load() || err == nil && e.reach(l.incarnation, r, after) {
		return zero, store.ErrClosed
	}
	return v, err
}

// request describes a request to the store.
type request struct {
	what   string
	writes bool
	frames [][]byte       // frames that the request appends
	did    func(any) bool // reports from the response whether the request had an effect; nil: it always has
}

// nothing is the response type of requests without a response.
type nothing struct{}

func do(l *workerStore, r request, op func() error) error {
	_, err := send(l, r, func() (nothing, error) { return nothing{}, op() })
	return err
}

// uncounted executes a request that is not a crash point, because it changes no run.
func uncounted[T any](l *workerStore, op func() (T, error)) (T, error) {
	var zero T
	if l.incarnation.dead.Load() {
		return zero, store.ErrClosed
	}
	v, err := op()
	if l.incarnation.dead.Load() {
		return zero, store.ErrClosed
	}
	return v, err
}

// Clock returns the clock of the store.
func (l *workerStore) Clock() store.Clock { return l.inner.Clock() }

// Partitions returns the number of partitions of the store.
func (l *workerStore) Partitions() int { return l.inner.Partitions() }

// Create stores new runs, which are children of other runs.
func (l *workerStore) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	return send(l, request{what: "create", writes: true}, func() ([]store.Created, error) {
		l.incarnation.env.told.RLock()
		defer l.incarnation.env.told.RUnlock()
		created, err := l.inner.Create(context.WithoutCancel(ctx), runs) // the request has arrived, so it does not end with the worker
		for i := range created {
			if created[i].Err == nil && created[i].New {
				l.incarnation.env.createdByWorker(created[i].Run)
			}
		}
		return created, err
	})
}

// OpenSession adds a lease. The lease ends when the worker is reaped.
func (l *workerStore) OpenSession(ctx context.Context, s store.Session) error {
	_, err := uncounted(l, func() (nothing, error) {
		l.incarnation.mu.Lock()
		l.incarnation.sessions = append(l.incarnation.sessions, lease{s.Partition, s.ID})
		l.incarnation.mu.Unlock()
		l.incarnation.env.takes(s.Routes)
		return nothing{}, l.inner.OpenSession(ctx, s)
	})
	return err
}

// Heartbeat renews the lease.
func (l *workerStore) Heartbeat(ctx context.Context, partition int, session store.SessionID) (store.Heartbeat, error) {
	return uncounted(l, func() (store.Heartbeat, error) { return l.inner.Heartbeat(ctx, partition, session) })
}

// Reconcile returns the runs of the session.
func (l *workerStore) Reconcile(ctx context.Context, partition int, session store.SessionID) ([]store.Owned, error) {
	return uncounted(l, func() ([]store.Owned, error) { return l.inner.Reconcile(ctx, partition, session) })
}

// CloseSession removes the lease.
func (l *workerStore) CloseSession(ctx context.Context, partition int, session store.SessionID) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.CloseSession(ctx, partition, session) })
	return err
}

// Claim claims runs.
func (l *workerStore) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	did := func(v any) bool { return len(v.(store.Claimed).Runs) > 0 }
	return send(l, request{what: "claim", did: did}, func() (store.Claimed, error) { return l.inner.Claim(ctx, c) })
}

// ClaimRun claims one run.
func (l *workerStore) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	return send(l, request{what: "claim"}, func() (store.ClaimedRun, error) {
		return l.inner.ClaimRun(ctx, partition, session, token, run)
	})
}

// Due makes runs ready.
func (l *workerStore) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	return uncounted(l, func() (time.Time, error) { return l.inner.Due(ctx, partition, limit) })
}

// Commit appends to logs.
func (l *workerStore) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	r := request{what: "commit", writes: true}
	for i := range commits {
		r.frames = append(r.frames, commits[i].Frame)
	}
	return send(l, r, func() ([]store.Committed, error) {
		l.incarnation.env.told.RLock()
		defer l.incarnation.env.told.RUnlock()
		answers, err := l.inner.Commit(context.WithoutCancel(ctx), commits) // the request has arrived, so it does not end with the worker
		for i := range answers {
			if answers[i].Err == nil {
				l.incarnation.env.committed(commits[i].Run, commits[i].Frame)
				if next := commits[i].Continue; next != nil {
					l.incarnation.env.createdByWorker(next.Run)
				}
			}
		}
		return answers, err
	})
}

// Release releases a run.
func (l *workerStore) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	return do(l, request{what: "release", writes: true}, func() error { return l.inner.Release(ctx, run, fence) })
}

// Deliver puts an item into an inbox.
func (l *workerStore) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	l.incarnation.env.delivers(d.Item)
	return send(l, request{what: "deliver", writes: true}, func() (event.RunID, error) { return l.inner.Deliver(ctx, d) })
}

// Outbox reads the records to deliver.
func (l *workerStore) Outbox(ctx context.Context, partition, limit int) (records []store.Outgoing, next time.Time, err error) {
	did := func(v any) bool { return len(v.([]store.Outgoing)) > 0 }
	records, err = send(l, request{what: "outbox", did: did}, func() (all []store.Outgoing, err error) {
		all, next, err = l.inner.Outbox(ctx, partition, limit)
		return all, err
	})
	return records, next, err
}

// Mark records the outcome of deliveries.
func (l *workerStore) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	return do(l, request{what: "mark", writes: true}, func() error { return l.inner.Mark(ctx, partition, marks) })
}

// Confirm lets the receiver delete its record of a delivery.
func (l *workerStore) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	return do(l, request{what: "confirm", writes: true}, func() error { return l.inner.Confirm(ctx, run, record) })
}

// Load reads runs.
func (l *workerStore) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	return send(l, request{what: "load"}, func() ([]store.Loaded, error) { return l.inner.Load(ctx, runs) })
}

// Resolve finds a run.
func (l *workerStore) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	return uncounted(l, func() (event.RunID, error) { return l.inner.Resolve(ctx, workflowID) })
}

// Wait blocks the claim loop until there is a run to claim. In virtual time, it ignores the time
// limit of w, because the scheduler makes due runs ready.
func (l *workerStore) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if !l.incarnation.env.virtual() {
		return uncounted(l, func() (store.Woken, error) { return l.inner.Wait(ctx, w) })
	}
	w.Until = time.Time{}
	c := &l.incarnation.env.scheduler
	shift := func(n int) {
		c.mu.Lock()
		c.claiming += n
		c.mu.Unlock()
	}
	shift(+1)
	l.incarnation.activity.End()
	woken, err := l.inner.Wait(ctx, w)
	l.incarnation.activity.Begin()
	shift(-1)
	if l.incarnation.dead.Load() {
		return store.Woken{}, store.ErrClosed
	}
	return woken, err
}

// Watch blocks until a log has grown.
func (l *workerStore) Watch(ctx context.Context, run event.RunID, n uint64) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.Watch(ctx, run, n) })
	return err
}

// Publish writes to streams.
func (l *workerStore) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return do(l, request{what: "publish", writes: true}, func() error { return l.inner.Publish(ctx, run, fence, chunks) })
}

// ReadStream reads a part of a stream.
func (l *workerStore) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	return uncounted(l, func() (store.StreamPage, error) { return l.inner.ReadStream(ctx, r) })
}

// AwaitStream blocks until a stream has a chunk after the given position, or has ended.
func (l *workerStore) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.AwaitStream(ctx, run, stream, after) })
	return err
}

// SetStepData stores data of a step.
func (l *workerStore) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	n, ok := store.As[store.StepDataStore](l.inner)
	if !ok {
		return nil
	}
	return do(l, request{what: "step-data", writes: true}, func() error { return n.SetStepData(ctx, run, fence, key, body, progress) })
}

// StepData returns the data of all steps of a run.
func (l *workerStore) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	n, ok := store.As[store.StepDataStore](l.inner)
	if !ok {
		return map[string][]byte{}, nil
	}
	return uncounted(l, func() (map[string][]byte, error) { return n.StepData(ctx, run) })
}

// Close does nothing, because the store belongs to the Env.
func (l *workerStore) Close() error { return nil }
