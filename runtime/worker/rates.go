package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/rates"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// ratePause is the minimum time between two publications. It is less than the default interval of
// heartbeats, so that each of them publishes.
const ratePause = 4 * time.Second

// ratePublisher publishes the rates of the worker as the data of its session, after heartbeats. A
// worker without runs and steps publishes nothing.
type ratePublisher struct {
	*env
	outage  *outage.Log
	session func() store.SessionID

	last  time.Time // time of the last publication, by the meter
	shown bool      // whether the session may have data
	busy  atomic.Bool
}

// publish publishes the rates in the background, so that it does not delay heartbeats. If an earlier
// call is still at work, it does nothing.
func (p *ratePublisher) publish(ctx context.Context) {
	if !p.busy.CompareAndSwap(false, true) {
		return
	}
	keeper, ok := store.As[store.SessionDataStore](p.store)
	now := p.meter.Now()
	if !ok || !p.last.IsZero() && now.Sub(p.last) < ratePause {
		p.busy.Store(false)
		return
	}
	body := p.meter.Encode(store.MaxSessionData)
	if body == nil && !p.shown {
		p.busy.Store(false)
		return
	}
	p.last, p.shown = now, body != nil
	p.work.Go(func() {
		defer p.busy.Store(false)
		err := keeper.SetSessionData(ctx, rates.Partition, p.session(), body)
		if err != nil && !errors.Is(err, store.ErrExpired) { // the data of an expired session are gone
			p.shown = true
			p.outage.Note(ctx, "publish the rates of the worker", err, rates.Partition)
		}
	})
}

// measure counts a finished attempt. Steps of internal workflows are not counted.
func (a *attempt) measure() {
	if !event.Reserved(a.info.Step) {
		a.steps.meter.Step(a.info.Step, a.began)
	}
}

// measure counts the begin and the end of a run. c is a commit that the store has accepted. Internal
// runs are not counted.
func (t *runLoop) measure(c *runloop.Commit) {
	begins := c.Create || t.fresh && c.Req.Frame != nil
	if begins {
		t.fresh = false
	}
	if event.Internal(t.name()) {
		return
	}
	if begins {
		t.meter.Started()
	}
	if c.Req.Effect == store.EffectFinish || c.Req.Effect == store.EffectContinue {
		t.meter.Ended()
	}
}
