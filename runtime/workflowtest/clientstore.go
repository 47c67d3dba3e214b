package workflowtest

import (
	"context"
	"encoding/binary"

	"github.com/oklog/ulid/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// clientStore is the store of an Env as its clients use it. In virtual time, a blocking call drives
// the scheduler. New runs have the same IDs in every execution of the test.
type clientStore struct {
	store.Store
	env *Env
}

// Unwrap returns the wrapped store, for optional capabilities.
func (d *clientStore) Unwrap() store.Store { return d.Store }

// Clock returns the clock of the store.
func (d *clientStore) Clock() store.Clock {
	if d.env.virtual() {
		return clientClock{d.env.scheduler.clock}
	}
	return d.Store.Clock()
}

// Create stores new runs, and starts the worker if none was started.
func (d *clientStore) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := d.env.ensureWorker(); err != nil {
		return nil, err
	}
	if d.env.virtual() {
		for i := range runs {
			runs[i].Run = d.env.nextRunID(runs[i].Run, runs[i].WorkflowID)
		}
	}
	for i := range runs {
		d.env.committed(runs[i].Run, runs[i].Frame) // before Create, so that no worker can read the run earlier; the frame may contain events of another run
	}
	d.env.creating.Lock() // a worker may create children before this call returns
	defer d.env.creating.Unlock()
	created, err := d.Store.Create(ctx, runs)
	for i := range created {
		if created[i].Err == nil && created[i].New {
			d.env.created(created[i].Run)
		}
	}
	return created, err
}

// Deliver puts an item into the inbox of a run.
func (d *clientStore) Deliver(ctx context.Context, v store.Deliver) (event.RunID, error) {
	d.env.delivers(v.Item)
	return d.Store.Deliver(ctx, v)
}

// delivers records an item that is not a message. Such an item, for example a command or the end of
// a child, may arrive after the code of a run has ended. It is not a lost message.
func (e *Env) delivers(item store.Item) {
	ev, err := event.DecodeItem(item.Body)
	if err != nil || ev.Type == event.MessageReceived {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asides[item.ID] = true
}

// Watch waits until the log has more than n events, or the run has ended.
func (d *clientStore) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := d.env.ensureWorker(); err != nil {
		return err
	}
	if !d.env.virtual() {
		return d.Store.Watch(ctx, run, n)
	}
	err := d.env.scheduler.await(ctx, func() bool {
		loaded, err := d.Load(context.Background(), []store.Load{{Run: run, Limit: -1}})
		return err != nil || loaded[0].Err != nil || store.Watched(n, loaded[0].Record.N, loaded[0].Record.QueueState == store.StateEnded)
	})
	if err != nil {
		return err
	}
	return d.Store.Watch(ctx, run, n) // returns at once, because the condition holds
}

// AwaitStream waits until the stream has a chunk after the given position, or has ended.
func (d *clientStore) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	if err := d.env.ensureWorker(); err != nil {
		return err
	}
	if !d.env.virtual() {
		return d.Store.AwaitStream(ctx, run, stream, after)
	}
	err := d.env.scheduler.await(ctx, func() bool {
		page, err := d.Store.ReadStream(context.Background(), store.ReadStream{Run: run, Stream: stream, Limit: -1})
		return err != nil || page.Last != after || page.Closed || page.Ended
	})
	if err != nil {
		return err
	}
	return d.Store.AwaitStream(ctx, run, stream, after) // returns at once, because the condition holds
}

// nextRunID returns the ID of the next run. It has the time of the ID that the client has made. If
// there is a workflow ID, it also has the slot of that ID.
func (e *Env) nextRunID(made event.RunID, workflowID string) event.RunID {
	e.mu.Lock()
	e.started++
	n := e.started
	e.mu.Unlock()
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(made.Time())) // cannot fail, because the time comes from an ID
	binary.BigEndian.PutUint64(u[6:14], n)
	if workflowID != "" {
		binary.BigEndian.PutUint16(u[14:], made.Slot())
	}
	return event.RunID(event.PrefixRun + "_" + u.String())
}
