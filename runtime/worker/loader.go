package worker

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
)

const (
	loaders   = 2
	loadBatch = 128
)

// load is a read of a run: its log and inbox, or only its inbox.
type load struct {
	runloop.Load
	by  loading
	run event.RunID

	after            uint64
	portion          int // bytes of large data to read; 0: all
	partition, bytes int // partition of the run, and size of its log in bytes
}

// loading is the receiver of a load's answer.
type loading interface {
	// loaded is called when the store has answered the load. The load contains the answer.
	loaded(l *load)
}

// loader reads runs from the store and retries each read until it is answered.
type loader struct {
	*env
	sender *request.Sender[*load]
	loads  chan *load
}

func newLoader(e *env) *loader {
	r := &loader{env: e, loads: make(chan *load, 1024)}
	r.sender = request.NewSender(request.Params[*load]{
		Ask:       r.ask,
		GiveUp:    func(l *load, err error) { r.deliver(l, store.Loaded{Err: err}) },
		Partition: func(l *load) int { return l.partition },
		Bytes:     func(l *load) int { return l.bytes },
		Clock:     r.clock, Context: r.io, Last: r.hard.Load, Work: &r.work,
	})
	return r
}

// start starts the goroutines of the loader, which end with the worker. Each reads many runs with
// one request.
func (r *loader) start() {
	for range loaders {
		r.work.Go(func() { request.Serve(r.io, r.loads, loadBatch, r.sender.Send) })
	}
}

// load queues a read. If the worker has stopped, the read is never answered.
func (r *loader) load(l *load) {
	r.activity.Begin()
	select {
	case r.loads <- l:
	case <-r.io.Done():
	}
}

// ask sends the reads once, and returns the reads without an answer.
func (r *loader) ask(batch []*load) (unknown []*load, err error) {
	requests := make([]store.Load, len(batch))
	for i, l := range batch {
		requests[i] = store.Load{Run: l.run, Inbox: true, After: l.after, Portion: l.portion, Bytes: l.bytes}
		if l.Inbox {
			requests[i].Limit = -1
		}
	}
	got, failed := r.store.Load(r.io, requests)
	unknown = batch[:0]
	for i, l := range batch {
		answer := store.Loaded{Err: failed}
		if failed == nil {
			answer = got[i]
		}
		if store.Unknown(answer.Err) {
			unknown, err = append(unknown, l), answer.Err
			continue
		}
		r.deliver(l, answer)
	}
	return unknown, err
}

// deliver passes the result to the run loop that requested the read.
func (r *loader) deliver(l *load, got store.Loaded) {
	l.Got = got
	l.by.loaded(l)
	r.activity.End()
}
