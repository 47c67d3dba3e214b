package workflowtest

import (
	"context"
	"encoding/binary"

	"github.com/oklog/ulid/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// clientStore is the store of an Env as used by clients. In virtual time, a blocking call drives
// the scheduler, and new runs get IDs that are the same in every execution of the test.
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

// Create stores new runs, and starts the worker if there is none.
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
		d.env.committed(runs[i].Run, runs[i].Frame) // the frame may contain events of another run; before a worker can read it
	}
	d.env.creating.Lock() // a worker may start children before this call returns
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

// delivers records items that are not messages: a command, or the end of a child, that arrives
// after the code of a run has ended is not a loss.
func (e *Env) delivers(item store.Item) {
	ev, err := event.DecodeItem(item.Body)
	if err != nil || ev.Type == event.MessageReceived {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asides[item.ID] = true
}

// Watch waits until the log has grown, or the run has ended.
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
	return d.Store.Watch(ctx, run, n) // it does not block any more
}

// AwaitStream waits until there is something new in a stream.
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
	return d.Store.AwaitStream(ctx, run, stream, after) // it does not block any more
}

// nextRunID returns the ID of the next run. It has the time, and with a workflow ID the slot, of
// the ID made by the client.
func (e *Env) nextRunID(made event.RunID, workflowID string) event.RunID {
	e.mu.Lock()
	e.started++
	n := e.started
	e.mu.Unlock()
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(made.Time())) // the time was in range when the ID was made
	binary.BigEndian.PutUint64(u[6:14], n)
	if workflowID != "" {
		binary.BigEndian.PutUint16(u[14:], made.Slot())
	}
	return event.RunID(event.PrefixRun + "_" + u.String())
}
