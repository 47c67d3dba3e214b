package workflowtest

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// line is a worker's way to the store. When the worker dies it is cut: whatever
// is sent after that does not arrive.
type line struct {
	inner store.Store
	life  *life
}

var (
	_ store.Store = (*line)(nil)
	_ store.Noter = (*line)(nil)
)

// send carries out one request. Every request is a point at which the worker may
// die: before it arrives (unless it only reads), and before it is answered.
func send[T any](l *line, r request, op func() (T, error)) (T, error) {
	var zero T
	e := l.life.env
	if l.life.dead.Load() || r.writes && e.reach(l.life, r, before) {
		return zero, store.ErrClosed
	}
	v, err := op()
	if err == nil && r.did != nil && !r.did(v) {
		return v, nil // nothing came of it
	}
	if l.life.dead.Load() || err == nil && e.reach(l.life, r, after) {
		return zero, store.ErrClosed
	}
	return v, err
}

// request describes a request.
type request struct {
	what   string
	writes bool
	frames [][]byte       // that it appends
	did    func(any) bool // whether anything came of it; nil: always
}

// nothing is the answer of requests that have none.
type nothing struct{}

func do(l *line, r request, op func() error) error {
	_, err := send(l, r, func() (nothing, error) { return nothing{}, op() })
	return err
}

// uncounted carries out a request that changes no run.
func uncounted[T any](l *line, op func() (T, error)) (T, error) {
	var zero T
	if l.life.dead.Load() {
		return zero, store.ErrClosed
	}
	v, err := op()
	if l.life.dead.Load() {
		return zero, store.ErrClosed
	}
	return v, err
}

// Clock returns the clock of the store.
func (l *line) Clock() store.Clock { return l.inner.Clock() }

// Partitions returns that of the store.
func (l *line) Partitions() int { return l.inner.Partitions() }

// Create stores new runs: the children of others.
func (l *line) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	return send(l, request{what: "create", writes: true}, func() ([]store.Created, error) {
		created, err := l.inner.Create(context.WithoutCancel(ctx), runs) // it has been sent
		for i := range created {
			if created[i].Err == nil && created[i].New {
				l.life.env.createdByWorker(created[i].Run)
			}
		}
		return created, err
	})
}

// OpenSession adds a lease, which ends when the worker is buried.
func (l *line) OpenSession(ctx context.Context, s store.Session) error {
	_, err := uncounted(l, func() (nothing, error) {
		l.life.mu.Lock()
		l.life.sessions = append(l.life.sessions, lease{s.Partition, s.ID})
		l.life.mu.Unlock()
		l.life.env.takes(s.Routes)
		return nothing{}, l.inner.OpenSession(ctx, s)
	})
	return err
}

// Heartbeat renews the lease.
func (l *line) Heartbeat(ctx context.Context, partition int, session store.SessionID) (store.Heartbeat, error) {
	return uncounted(l, func() (store.Heartbeat, error) { return l.inner.Heartbeat(ctx, partition, session) })
}

// Reconcile returns the runs of the session.
func (l *line) Reconcile(ctx context.Context, partition int, session store.SessionID) ([]store.Owned, error) {
	return uncounted(l, func() ([]store.Owned, error) { return l.inner.Reconcile(ctx, partition, session) })
}

// CloseSession removes the lease.
func (l *line) CloseSession(ctx context.Context, partition int, session store.SessionID) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.CloseSession(ctx, partition, session) })
	return err
}

// Claim hands out runs.
func (l *line) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	did := func(v any) bool { return len(v.(store.Claimed).Runs) > 0 }
	return send(l, request{what: "claim", did: did}, func() (store.Claimed, error) { return l.inner.Claim(ctx, c) })
}

// ClaimRun hands out a run.
func (l *line) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	return send(l, request{what: "claim"}, func() (store.ClaimedRun, error) {
		return l.inner.ClaimRun(ctx, partition, session, token, run)
	})
}

// Due makes runs ready.
func (l *line) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	return uncounted(l, func() (time.Time, error) { return l.inner.Due(ctx, partition, limit) })
}

// Commit appends to logs.
func (l *line) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	r := request{what: "commit", writes: true}
	for i := range commits {
		r.frames = append(r.frames, commits[i].Frame)
	}
	return send(l, r, func() ([]store.Committed, error) {
		answers, err := l.inner.Commit(context.WithoutCancel(ctx), commits) // it has been sent
		for i := range answers {
			if answers[i].Err == nil {
				l.life.env.committed(commits[i].Run, commits[i].Frame)
				if next := commits[i].Continue; next != nil {
					l.life.env.createdByWorker(next.Run)
				}
			}
		}
		return answers, err
	})
}

// Release gives a run back.
func (l *line) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	return do(l, request{what: "release", writes: true}, func() error { return l.inner.Release(ctx, run, fence) })
}

// Deliver puts an item into an inbox.
func (l *line) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	l.life.env.delivers(d.Item)
	return send(l, request{what: "deliver", writes: true}, func() (event.RunID, error) { return l.inner.Deliver(ctx, d) })
}

// Outbox reads the records to deliver.
func (l *line) Outbox(ctx context.Context, partition, limit int) (records []store.Outgoing, next time.Time, err error) {
	did := func(v any) bool { return len(v.([]store.Outgoing)) > 0 }
	records, err = send(l, request{what: "outbox", did: did}, func() (all []store.Outgoing, err error) {
		all, next, err = l.inner.Outbox(ctx, partition, limit)
		return all, err
	})
	return records, next, err
}

// Mark says what became of it.
func (l *line) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	return do(l, request{what: "mark", writes: true}, func() error { return l.inner.Mark(ctx, partition, marks) })
}

// Confirm lets a receiver forget.
func (l *line) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	return do(l, request{what: "confirm", writes: true}, func() error { return l.inner.Confirm(ctx, run, record) })
}

// Load reads runs.
func (l *line) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	return send(l, request{what: "load"}, func() ([]store.Loaded, error) { return l.inner.Load(ctx, runs) })
}

// Resolve finds a run.
func (l *line) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	return uncounted(l, func() (event.RunID, error) { return l.inner.Resolve(ctx, workflowID) })
}

// Wait blocks the claim loop until there is something to claim. In virtual time
// it waits without limit: what falls due is announced by whoever moves the time.
func (l *line) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if !l.life.env.virtual() {
		return uncounted(l, func() (store.Woken, error) { return l.inner.Wait(ctx, w) })
	}
	w.Until = time.Time{}
	c := &l.life.env.scheduler
	shift := func(n int) {
		c.mu.Lock()
		c.claiming += n
		c.mu.Unlock()
	}
	shift(+1)
	l.life.activity.End()
	woken, err := l.inner.Wait(ctx, w)
	l.life.activity.Begin()
	shift(-1)
	if l.life.dead.Load() {
		return store.Woken{}, store.ErrClosed
	}
	return woken, err
}

// Watch blocks until a log has grown.
func (l *line) Watch(ctx context.Context, run event.RunID, n uint64) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.Watch(ctx, run, n) })
	return err
}

// Publish writes to streams.
func (l *line) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return do(l, request{what: "publish", writes: true}, func() error { return l.inner.Publish(ctx, run, fence, chunks) })
}

// ReadStream reads a part of a stream.
func (l *line) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	return uncounted(l, func() (store.StreamPage, error) { return l.inner.ReadStream(ctx, r) })
}

// AwaitStream blocks until there is something new in a stream.
func (l *line) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	_, err := uncounted(l, func() (nothing, error) { return nothing{}, l.inner.AwaitStream(ctx, run, stream, after) })
	return err
}

// SetNote keeps a note.
func (l *line) SetNote(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	n, ok := store.As[store.Noter](l.inner)
	if !ok {
		return nil
	}
	return do(l, request{what: "note", writes: true}, func() error { return n.SetNote(ctx, run, fence, key, body, progress) })
}

// Notes returns the notes of a run.
func (l *line) Notes(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	n, ok := store.As[store.Noter](l.inner)
	if !ok {
		return map[string][]byte{}, nil
	}
	return uncounted(l, func() (map[string][]byte, error) { return n.Notes(ctx, run) })
}

// Close does nothing: the store is the Env's.
func (l *line) Close() error { return nil }
