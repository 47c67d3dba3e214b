package suite

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Pending is the result of a call that blocks in its own goroutine.
type Pending[T any] struct {
	Answer chan T
	Err    chan error
	Cancel context.CancelFunc
}

// Background calls f in its own goroutine and yields the processor so that f can block. A test
// cannot observe whether f has blocked, so it must pass in both cases.
func Background[T any](h *Harness, f func(ctx context.Context) (T, error)) *Pending[T] {
	ctx, cancel := context.WithCancel(h.Ctx)
	p := &Pending[T]{Answer: make(chan T, 1), Err: make(chan error, 1), Cancel: cancel}
	started := make(chan struct{})
	go func() {
		close(started)
		got, err := f(ctx)
		p.Answer <- got
		p.Err <- err
	}()
	h.Cleanup(cancel)
	<-started
	for range 200 {
		runtime.Gosched()
	}
	return p
}

// Result returns the result of the call. It fails the test if the result does not arrive within
// Patience.
func (p *Pending[T]) Result(h *Harness, what string) (T, error) {
	h.Helper()
	select {
	case got := <-p.Answer:
		return got, <-p.Err
	case <-time.After(Patience):
		h.Fatalf("%s: still blocked after %v", what, Patience)
		panic("unreachable")
	}
}

// Wait calls Wait in the background.
func (h *Harness) Wait(w store.Wait) *Pending[store.Woken] {
	return Background(h, func(ctx context.Context) (store.Woken, error) { return h.Store.Wait(ctx, w) })
}

// Woken returns the result of a Wait, and fails the test unless the Wait succeeds.
func (h *Harness) Woken(what string, p *Pending[store.Woken]) store.Woken {
	h.Helper()
	got, err := p.Result(h, what)
	h.Check(what, err)
	return got
}

// WaitFor returns the request of a Wait of a session for routes. The Wait has no end time.
func WaitFor(s store.SessionID, routes ...store.Route) store.Wait {
	return store.Wait{Sessions: []store.WaitSession{{Session: s}}, Routes: routes}
}

// Watch calls Watch in the background. The call must block until the log has more than n frames or
// the run has ended. The Pending has an error if Watch returns earlier.
func (h *Harness) Watch(run event.RunID, n uint64) *Pending[struct{}] {
	return Background(h, func(ctx context.Context) (struct{}, error) {
		if err := h.Store.Watch(ctx, run, n); err != nil {
			return struct{}{}, err
		}
		got, err := h.Store.Load(h.Ctx, []store.Load{{Run: run, Limit: -1}})
		if err != nil {
			return struct{}{}, fmt.Errorf("load after watch: %s", err.Error()) // %w would make the caller take err for an error of Watch
		}
		if r := got[0].Record; !store.Watched(n, r.N, r.QueueState == store.StateEnded) {
			return struct{}{}, fmt.Errorf("watch returned with %d frames of a run that is %s, want more than %d", r.N, r.QueueState, n)
		}
		return struct{}{}, nil
	})
}

// Watched fails the test unless a Watch ends without an error.
func (h *Harness) Watched(p *Pending[struct{}]) {
	h.Helper()
	_, err := p.Result(h, "watch")
	h.Check("watch", err)
}
