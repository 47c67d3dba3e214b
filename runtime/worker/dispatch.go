package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// A dispatch is a worker that executes nothing. It has sessions, which announce the routes of the
// functions, and does everything else that a fleet needs: it recovers the runs of dead sessions, makes
// due runs ready, delivers outbox records, ends canceled runs that no session serves, and purges runs.
// Instead of claiming ready runs it offers them to a caller, which lets a function claim them by name.
// It owns no run. So any number of dispatches may offer the same run: one function claims it, and the
// others are refused.

func (i invoker) Declare(ctx context.Context) error {
	w := i.Worker
	if len(w.code.Scheduled()) > 0 {
		if err := w.loop.client.Declare(ctx, w.code, w.clock.Now()); err != nil {
			return err
		}
	}
	if err := w.describeOnce(ctx); err != nil {
		return err
	}
	entries, ok := store.As[store.Entries](w.store)
	if !ok {
		return nil
	}
	_, err := deploy.Seen(ctx, entries, w.build)
	return err
}

func (i invoker) Scan(ctx context.Context) error {
	if i.alerting == nil {
		return nil
	}
	return i.alerting.Scan(ctx)
}

func (i invoker) Dispatch(ctx context.Context, d flow.Dispatch) error {
	w := i.Worker
	if w.ran.Swap(true) {
		return errors.New("worker: Dispatch was called twice")
	}
	w.declares = false
	c := newClaimed(d.Routes)
	w.served.code, w.served.own = c.has, d.Routes
	w.served.claimed.Store(c)
	w.fit, w.build = d.Fingerprint, flow.BuildOf(d.Fingerprint)
	defer w.setParams()()
	offers := &dispatch{env: w.env, claimer: w.claimer, Dispatch: d, moved: wait.NewNotifier()}
	w.dispatches = offers
	return w.serve(ctx, offers.run)
}

// dispatch offers ready runs.
type dispatch struct {
	*env
	claimer *claimer
	moved   wait.Notifier // notified when the routes have changed
	flow.Dispatch
}

// adopt makes m the mover of a dispatch, and returns it. So functions execute the pinned runs of a
// build that has neither functions nor workers, by the rule of workers. A function accepts such a run
// while a session of its build announces the route; see [Worker.accepts].
func (d *dispatch) adopt(m *mover) *mover {
	m.always = slices.ContainsFunc(d.Routes, isPinned)
	m.moved, m.away = func() { d.moved.Notify() }, d.Away
	m.full = func() bool { return d.Free() == 0 }
	m.reserve = func(*store.Record) func() { return func() {} }
	m.claim = func(_ context.Context, run event.RunID) error {
		d.Offer(run)
		return nil
	}
	return m
}

const (
	// offerAgain is the first pause after a round that has found no run to offer although a wake was
	// taken. It doubles with each such round up to offerRarely. The ready run that caused the wake is on
	// its way to a function, which claims it soon.
	offerAgain, offerRarely = 2 * time.Millisecond, 200 * time.Millisecond

	// tryBlocked is the interval at which blocked runs are offered. The caller declines those that the
	// same code could not replay. blockedMost bounds the runs of one interval.
	tryBlocked, blockedMost = 10 * time.Second, 1000
)

// run offers ready runs until ctx ends.
func (d *dispatch) run(ctx context.Context) error {
	defer d.handOn()
	pause := offerAgain
	examine := map[int]bool{}
	var tried time.Time
	for ctx.Err() == nil {
		now := d.clock.Now()
		if now.Sub(tried) >= tryBlocked && d.offerBlocked(ctx) == nil {
			tried = now
		}
		for _, s := range d.claimer.sources {
			if !examine[s.Partition] && !s.due(now, d.waitMost) {
				continue
			}
			if err := d.examine(ctx, s); err != nil {
				if errors.Is(err, store.ErrClosed) {
					return err
				}
				wait.For(ctx, d.clock, 100*time.Millisecond)
				continue
			}
			s.asked = now
			delete(examine, s.Partition)
		}
		offered, left, err := d.offer(ctx)
		switch {
		case err != nil:
			wait.For(ctx, d.clock, time.Second)
		case offered > 0:
			pause = offerAgain
		case left:
			wait.For(ctx, d.clock, pause)
			pause = min(2*pause, offerRarely)
		}
		woken, err := d.await(ctx)
		if errors.Is(err, store.ErrClosed) {
			return err
		}
		if err != nil {
			wait.For(ctx, d.clock, 100*time.Millisecond)
		}
		for _, p := range slices.Concat(woken.Claim, woken.Sooner, woken.Hinted) {
			examine[p] = true
		}
		d.tellDamage()
	}
	return nil
}

// handOn makes the store announce the ready runs again, because the dispatch may have taken a wake
// since it has examined them.
func (d *dispatch) handOn() {
	all := map[int]cause{}
	for _, s := range d.claimer.sources {
		all[s.Partition] = sure
	}
	d.claimer.handOn(all)
}

// examine recovers the runs of dead sessions of a partition and makes due runs ready. The claim of
// zero runs announces the ready runs again, so that a worker of the same routes gets the wake that
// this dispatch may have taken.
func (d *dispatch) examine(ctx context.Context, s *source) error {
	id := s.Current()
	if id == "" {
		return s.Renew(ctx, id)
	}
	got, err := d.store.Claim(ctx, store.Claim{Partition: s.Partition, Session: id, Token: event.NewToken(), Routes: d.served.routes()})
	if errors.Is(err, store.ErrExpired) {
		return s.Renew(ctx, id)
	}
	if err == nil {
		s.next = got.Next
	}
	return err
}

// offer offers ready runs. It returns how many were accepted, and whether others are left. It examines
// some more runs than may be offered, because the first ones may be on their way to a function.
func (d *dispatch) offer(ctx context.Context) (accepted int, left bool, err error) {
	free := d.Free()
	if free == 0 {
		return 0, false, nil
	}
	lister, ok := store.As[store.ReadyLister](d.store)
	if !ok {
		return 0, false, fmt.Errorf("dispatch runs: the store is no store.ReadyLister: %w", errors.ErrUnsupported)
	}
	for s := range d.claimer.inTurn() {
		runs, failed := lister.Ready(ctx, s.Partition, d.served.routes(), 2*d.Most)
		if failed != nil {
			err = failed // the other partitions may answer
			continue
		}
		left = left || len(runs) > 0
		for _, run := range runs {
			if d.Free() > 0 && d.Offer(run) {
				accepted++
			}
		}
	}
	d.claimer.turn.Add(1) // another partition comes first
	return accepted, left, err
}

// offerBlocked offers blocked runs. A claim by routes makes blocked runs ready if the code of the
// session may fit. A dispatch makes no such claims, and the sessions of functions are short, so the
// functions try the runs by name.
func (d *dispatch) offerBlocked(ctx context.Context) error {
	lister, ok := store.As[store.Lister](d.store)
	if !ok {
		return nil
	}
	page, err := lister.List(ctx, store.Query{Statuses: []event.Status{event.StatusBlocked}, Oldest: true, Limit: blockedMost})
	if err != nil {
		return err
	}
	for i := range page.Runs {
		if r := &page.Runs[i]; r.QueueState == store.StateBlocked && d.served.claims(r.Route) && d.Free() > 0 {
			d.Offer(r.Run)
		}
	}
	return nil
}

// await waits until there may be runs to offer.
func (d *dispatch) await(ctx context.Context) (store.Woken, error) {
	req := store.Wait{Until: d.clock.Now().Add(d.waitMost)}
	for _, s := range d.claimer.sources {
		if until := s.until(d.waitMost); until.Before(req.Until) {
			req.Until = until
		}
		req.Sessions = append(req.Sessions, store.WaitSession{Partition: s.Partition, Session: s.Current()})
	}
	if d.Free() > 0 {
		req.Routes = d.served.routes()
	}
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-d.Changed:
			cancel()
		case <-d.moved:
			cancel()
		case <-wctx.Done():
		}
	}()
	woken, err := d.store.Wait(wctx, req)
	if err != nil && ctx.Err() == nil && wctx.Err() != nil {
		return store.Woken{}, nil // changed
	}
	return woken, err
}
