package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// soon is the time within which an event must end a Wait. It is far less than cover, after which
// every Wait ends.
const soon = cover - 2*time.Second

// looks is a hook that counts the probes of Waits. It may intercept probes and claims.
type looks struct {
	redis.Hook

	done   atomic.Int64
	around func(do func() error) error // executes a probe by calling do; nil to execute it directly
	claims func(do func() error) error // executes a claim by calling do; nil to execute it directly
}

func (l *looks) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *looks) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		one := func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds[0]) }
		return l.ProcessPipelineHook(one)(ctx, []redis.Cmder{cmd})
	}
}

func (l *looks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		script := ""
		if len(cmds) > 0 && len(cmds[0].Args()) > 1 {
			script = ScriptOf(cmds[0].Args()[1])
		}
		if script == scriptClaim.name && l.claims != nil {
			return l.claims(func() error { return next(ctx, cmds) })
		}
		if script != scriptProbe.name {
			return next(ctx, cmds)
		}
		defer l.done.Add(1)
		if l.around == nil {
			return next(ctx, cmds)
		}
		err := l.around(func() error { return next(ctx, cmds) })
		for _, c := range cmds {
			if err != nil && c.Err() == nil {
				c.SetErr(err)
			}
		}
		return err
	}
}

// waitingStore is a store with a hook that observes Waits, and a session that owns a run.
type waitingStore struct {
	*guarded

	looks   *looks
	session store.SessionID
	owned   event.RunID
}

// openWaiting loads the scripts that the hook observes. Otherwise the first execution on a server
// is refused and repeated, and the hook observes both attempts.
func openWaiting(t *testing.T, client *redis.Client) *waitingStore {
	t.Helper()
	hook := &looks{}
	client.AddHook(hook)
	e := &waitingStore{guarded: openGuardedOn(t, client), looks: hook}
	for _, s := range []*script{scriptProbe, scriptClaim} {
		e.check(client.ScriptLoad(e.ctx, s.ready().text).Err())
	}
	e.session = e.guarded.session()
	l, _ := e.own(e.session, "")
	e.owned = l.Run
	e.drain()
	return e
}

// drain removes all wakes, so that the next Wait blocks.
func (e *waitingStore) drain() {
	e.t.Helper()
	e.check(e.client.Del(e.ctx, e.parts[0].wakes()).Err())
}

// wait begins a Wait that ends later than all due times in these tests.
func (e *waitingStore) wait(ctx context.Context, routes ...store.Route) <-chan store.Woken {
	return e.waitFor(ctx, 1000*time.Hour, routes...)
}

// waitFor begins a Wait that ends after d. The Wait reports only due times before its end.
func (e *waitingStore) waitFor(ctx context.Context, d time.Duration, routes ...store.Route) <-chan store.Woken {
	until := e.clock.Now().Add(d)
	got := make(chan store.Woken, 1)
	go func() {
		woken, err := e.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: e.session}}, Routes: routes, Until: until})
		if err != nil {
			woken = store.Woken{}
		}
		got <- woken
	}()
	return got
}

// listening waits until n probes have ended. A Wait subscribes before it probes, so it is
// subscribed then.
func (e *waitingStore) listening(n int64) {
	e.t.Helper()
	for e.looks.done.Load() < n {
		select {
		case <-e.ctx.Done():
			e.t.Fatalf("there were %d looks, want %d", e.looks.done.Load(), n)
		case <-time.After(time.Millisecond):
		}
	}
}

// woken fails the test unless a Wait returns want within soon.
func (e *waitingStore) woken(what string, got <-chan store.Woken, want store.Woken) {
	e.t.Helper()
	select {
	case woken := <-got:
		if diff := cmp.Diff(want, woken, cmpopts.EquateEmpty()); diff != "" {
			e.t.Errorf("%s: what the Wait says (-want +got):\n%s", what, diff)
		}
	case <-time.After(soon):
		e.t.Errorf("%s: the Wait was not woken", what)
		<-got
	}
}

// signal is an event that ends a Wait, with the expected result of the Wait.
type signal struct {
	what  string
	bring func(e *waitingStore)
	want  func(e *waitingStore) store.Woken
}

var allSignals = []signal{
	{"a run", func(e *waitingStore) { e.start("") }, func(*waitingStore) store.Woken { return store.Woken{Claim: []int{0}} }},
	{"item", func(e *waitingStore) {
		_, err := e.Deliver(e.ctx, store.Deliver{Run: e.owned, Item: store.Item{ID: e.ids.Item(), Body: []byte("1")}})
		e.check(err)
	}, func(e *waitingStore) store.Woken { return store.Woken{Unread: []event.RunID{e.owned}} }},
	{"an earlier due time", func(e *waitingStore) {
		l, fence := e.own(e.guarded.session(), "")
		c := l.Commit(fence, l.Sleep(e.clock.Now().Add(time.Hour))...)
		c.Effect, c.Due = store.EffectPark, e.clock.Now().Add(time.Hour)
		e.check(e.answer(c).Err)
		e.drain()
	}, func(*waitingStore) store.Woken { return store.Woken{Sooner: []int{0}} }},
}

func TestWait_IsToldOfWhatHappensWhileItListens(t *testing.T) {
	for _, n := range allSignals {
		t.Run(n.what, func(t *testing.T) {
			e := openWaiting(t, redistest.Shared(t).Client(t))
			var routes []store.Route
			if n.what == "a run" { // the other signals use no route, because the parked run would end the Wait
				routes = []store.Route{guardedRoute}
			}
			got := e.wait(e.ctx, routes...)
			e.listening(1)
			n.bring(e)
			e.woken(n.what, got, n.want(e))
		})
	}
}

func TestWait_IsToldOfAnEarlierDueTimeThatIsThereAlready(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	allSignals[2].bring(e)
	e.woken("a due time", e.wait(e.ctx), store.Woken{Sooner: []int{0}})
}

// TestWait_IsToldOfWhatHappenedSinceTheOneBefore proves that a Wait reports events that occurred
// after the previous Wait of the session. The subscription stays open between the two.
func TestWait_IsToldOfWhatHappenedSinceTheOneBefore(t *testing.T) {
	for _, n := range allSignals {
		t.Run(n.what, func(t *testing.T) {
			e := openWaiting(t, redistest.Shared(t).Client(t))
			var routes []store.Route
			if n.what == "a run" {
				routes = []store.Route{guardedRoute}
			}
			first := e.wait(e.ctx, routes...)
			e.listening(1)
			allSignals[1].bring(e)
			e.woken("the first Wait", first, allSignals[1].want(e))
			n.bring(e)
			e.woken(n.what, e.wait(e.ctx, routes...), n.want(e))
		})
	}
}

// TestWait_IsToldOfADueTimeThatDidNotWakeTheOneBefore proves that a Wait reports a due time that
// lies after the end of the previous Wait and before its own end.
func TestWait_IsToldOfADueTimeThatDidNotWakeTheOneBefore(t *testing.T) {
	due, item := allSignals[2], allSignals[1]
	for name, early := range map[string]bool{"it was there": true, "it was heard of": false} {
		t.Run(name, func(t *testing.T) {
			e := openWaiting(t, redistest.Shared(t).Client(t))
			if early {
				due.bring(e) // due in one hour
			}
			first := e.waitFor(e.ctx, 30*time.Minute)
			e.listening(1)
			if !early {
				due.bring(e)
			}
			item.bring(e)
			e.woken("the first Wait", first, item.want(e))
			e.woken("the second Wait", e.wait(e.ctx), due.want(e))
		})
	}
}

// claim claims for the session, and fails the test unless it gets the run that has slept for an
// hour.
func (e *waitingStore) claim() {
	e.t.Helper()
	got, err := e.Claim(e.ctx, store.Claim{Session: e.session, Token: e.ids.Token(), Routes: []store.Route{guardedRoute}, Max: 1})
	e.check(err)
	if len(got.Runs) != 1 || !got.Next.IsZero() {
		e.t.Errorf("claim: got %d runs and %v as the next due time, want one run and none", len(got.Runs), got.Next)
	}
}

// TestWait_LooksForNoDueTimeThatAClaimHasFoundOver proves that a Wait does not probe because of a
// due time if a claim has made the due runs ready.
func TestWait_LooksForNoDueTimeThatAClaimHasFoundOver(t *testing.T) {
	due, item := allSignals[2], allSignals[1]
	e := openWaiting(t, redistest.Shared(t).Client(t))
	first := e.wait(e.ctx)
	e.listening(1)
	due.bring(e)
	e.woken("the first Wait", first, due.want(e))
	e.clock.Advance(time.Hour)
	e.claim()
	looks := e.looks.done.Load()
	second := e.wait(e.ctx)
	e.check(e.clock.AwaitAlarm(e.ctx)) // the Wait blocks
	item.bring(e)
	e.woken("the second Wait", second, item.want(e))
	if n := e.looks.done.Load() - looks; n != 1 {
		t.Errorf("the second Wait has looked %d times, want once, for the item", n)
	}
	due.bring(e)
	e.woken("a Wait after another due time", e.wait(e.ctx), due.want(e))
}

// TestWait_KnowsOfADueTimeThatAnEarlierClaimHasNotSeen proves that the answer to a claim does not
// replace a due time that a Wait has received, if the claim was sent before the Wait had ended.
func TestWait_KnowsOfADueTimeThatAnEarlierClaimHasNotSeen(t *testing.T) {
	due, item := allSignals[2], allSignals[1]
	e := openWaiting(t, redistest.Shared(t).Client(t))
	due.bring(e)
	e.clock.Advance(time.Hour)
	executed, late := make(chan struct{}), make(chan struct{})
	e.looks.claims = func(do func() error) error {
		err := do()
		close(executed)
		<-late
		return err
	}
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		e.claim()
	}()
	<-executed
	e.drain()
	e.looks.claims = nil
	first := e.waitFor(e.ctx, 30*time.Minute)
	e.listening(1)
	due.bring(e)
	item.bring(e)
	e.woken("the Wait for a time before", first, item.want(e))
	close(late)
	<-claimed
	e.woken("the next Wait", e.wait(e.ctx), due.want(e))
}

func TestWait_OfOtherRoutesThanBeforeLooks(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	first := e.wait(e.ctx) // a Wait without routes
	e.listening(1)
	e.start("") // starts a run, whose route the Wait does not include
	allSignals[1].bring(e)
	e.woken("the first Wait", first, allSignals[1].want(e))
	e.woken("a Wait for the route", e.wait(e.ctx, guardedRoute), store.Woken{Claim: []int{0}})
}

func TestWait_AfterALookThatFailedLooksAgain(t *testing.T) {
	for name, fails := range map[string]int64{"the first": 1, "one that a hint has caused": 2} {
		t.Run(name, func(t *testing.T) {
			e := openWaiting(t, redistest.Shared(t).Client(t))
			e.looks.around = func(do func() error) error {
				if e.looks.done.Load() == fails-1 {
					return errors.New("the connection was lost")
				}
				return do()
			}
			first := e.wait(e.ctx, guardedRoute)
			e.listening(fails - 1)
			e.start("")
			e.woken("the Wait whose look fails", first, store.Woken{})
			e.woken("the next Wait", e.wait(e.ctx, guardedRoute), store.Woken{Claim: []int{0}})
		})
	}
}

func TestWait_LooksAgainWhenTheConnectionWasLost(t *testing.T) {
	server := redistest.Start(t)
	e := openWaiting(t, server.Client(t))
	got := e.wait(e.ctx, guardedRoute)
	e.listening(1)
	killed, err := e.client.Do(e.ctx, "CLIENT", "KILL", "TYPE", "pubsub").Int()
	if err != nil || killed != 1 {
		t.Fatalf("killed %d connections, %v, want the one that receives", killed, err)
	}
	e.start("") // this wake is published while no Wait is connected
	e.woken("a run", got, store.Woken{Claim: []int{0}})
}

// TestWait_KeepsAWakeThatWasTakenWhenItIsCanceled proves that a canceled Wait reports a wake that
// its probe has taken. Otherwise the wake would be lost.
func TestWait_KeepsAWakeThatWasTakenWhenItIsCanceled(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	e.looks.around = func(do func() error) error {
		defer cancel()
		return do()
	}
	e.start("")
	e.woken("a Wait that gives up", e.wait(ctx, guardedRoute), store.Woken{Claim: []int{0}})
}
