package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestCrowd_LooksAtOnceAsOftenAsItFindsWakes proves that a session probes at once while its probes
// succeed. A session that finds one wake in a hundred delays its probes until the other sessions
// have ended.
func TestCrowd_LooksAtOnceAsOftenAsItFindsWakes(t *testing.T) {
	var c waiterEstimate
	routes := []string{"r"}
	atOnce := func() (n int) {
		t.Helper()
		for range 10_000 {
			switch wait := c.wait(routes); {
			case wait == 0:
				n++
			case wait < 0 || wait > probeLatest:
				t.Fatalf("a look is put off by %v, want at most %v", wait, probeLatest)
			}
		}
		return n
	}
	if n := atOnce(); n != 10_000 {
		t.Errorf("alone it looks at once %d of 10,000 times, want each time", n)
	}
	for i := range 1000 {
		c.note(routes, i%100 == 0)
	}
	if n := atOnce(); n > 2000 {
		t.Errorf("in a crowd it looks at once %d of 10,000 times, want a few", n)
	}
	routes = []string{"r", "another"} // the second route may be served by this session only
	if n := atOnce(); n != 10_000 {
		t.Errorf("for another route as well it looks at once %d of 10,000 times, want each time", n)
	}
	routes = routes[:1]
	for range 200 {
		c.note(routes, true)
	}
	if n := atOnce(); n != 10_000 {
		t.Errorf("alone again it looks at once %d of 10,000 times, want each time", n)
	}
}

// TestWait_MakesTheLookThatTheOneBeforeHasPutOff proves that a Wait makes the delayed probe of the
// previous Wait of the session, if that Wait ended before the probe.
func TestWait_MakesTheLookThatTheOneBeforeHasPutOff(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	heard := make(chan struct{}, 10)
	e.waiterEstimate.decide = func() time.Duration {
		heard <- struct{}{}
		return time.Hour
	}
	ctx, cancel := context.WithCancel(e.ctx)
	first := e.wait(ctx, guardedRoute)
	e.listening(1)
	e.check(e.clock.AwaitAlarm(e.ctx)) // the Wait blocks
	e.start("")
	<-heard
	cancel()
	if woken := <-first; len(woken.Claim) > 0 {
		t.Errorf("the first Wait says %+v, although its look was put off", woken)
	}
	e.woken("the second Wait", e.wait(e.ctx, guardedRoute), store.Woken{Claim: []int{0}})
}

// TestWait_LooksWhenItsTimeHasComeWhereItHasPutThatOff proves that a delayed probe is made if no
// further hint arrives.
func TestWait_LooksWhenItsTimeHasComeWhereItHasPutThatOff(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	e.waiterEstimate.decide = func() time.Duration { return 10 * time.Millisecond }
	got := e.wait(e.ctx, guardedRoute)
	e.listening(1)
	e.check(e.clock.AwaitAlarm(e.ctx))
	e.start("")
	e.woken("a Wait that has put its look off", got, store.Woken{Claim: []int{0}})
}

// TestREC5_SessionsThatLetOthersGoFirstMissNoRun proves that idle sessions claim every run because
// of a notification. Eight sessions, each with its own connection and waiter estimate, wait while
// runs are started one after another. A Wait that ends by its timeout must not find a run.
func TestREC5_SessionsThatLetOthersGoFirstMissNoRun(t *testing.T) {
	for name, hinted := range map[string]bool{"WhoLook": false, "WhoAreHinted": true} {
		t.Run(name, func(t *testing.T) { testWaiters(t, hinted) })
	}
}

func testWaiters(t *testing.T, hinted bool) {
	const sessions, runs = 8, 300
	server := redistest.Shared(t)
	e := openGuardedOn(t, server.Client(t))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	claimed := make(chan event.RunID, runs)
	var put atomic.Int64
	ended := make(chan error, sessions)
	for n := range sessions {
		s, err := New(server.Client(t), e.cfg)
		e.check(err)
		id := store.SessionID(fmt.Sprint("idle ", n))
		e.check(s.OpenSession(ctx, store.Session{ID: id, Worker: "w", TTL: time.Hour, Routes: []store.Route{guardedRoute}}))
		s.waiterEstimate.decide = func() time.Duration {
			c := waiterEstimate{found: map[string]float64{"": 1.0 / sessions}}
			wait := c.wait([]string{""})
			if wait > 0 {
				put.Add(1)
			}
			return wait
		}
		go func() {
			defer func() { _ = s.Close() }() // closes only the store; the test closes the client
			for {
				woken, err := s.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: id}}, Routes: []store.Route{guardedRoute}, Until: e.clock.Now().Add(1000 * time.Hour), Hinted: hinted})
				if err != nil {
					ended <- nil
					return
				}
				got, err := s.Claim(ctx, store.Claim{Session: id, Token: event.NewToken(), Routes: []store.Route{guardedRoute}, Max: 1, Hinted: len(woken.Hinted) > 0})
				switch {
				case ctx.Err() != nil:
					ended <- nil
					return
				case err != nil:
					ended <- err
					return
				}
				for _, r := range got.Runs {
					if len(woken.Claim)+len(woken.Hinted) == 0 {
						ended <- fmt.Errorf("run %s was found by chance: nobody was told of it", r.Run)
						return
					}
					claimed <- r.Run
				}
			}
		}()
	}
	for n := range runs {
		e.start("")
		select {
		case <-claimed:
		case err := <-ended:
			t.Fatalf("after %d of %d runs: %v", n, runs, err)
		}
	}
	cancel()
	for range sessions {
		e.check(<-ended)
	}
	if put.Load() == 0 {
		t.Error("nobody has let others go first")
	}
	t.Logf("%d looks were put off", put.Load())
}

// TestWait_ThatIsHintedLooksForNoWake proves that a hinted Wait does not probe for wakes. The claim
// takes the wake of a start, which saves a script. A block has no wake that a claim could take.
func TestWait_ThatIsHintedLooksForNoWake(t *testing.T) {
	e := openWaiting(t, redistest.Shared(t).Client(t))
	for n := range 3 {
		got := make(chan store.Woken, 1)
		go func() {
			w, err := e.Wait(e.ctx, store.Wait{
				Sessions: []store.WaitSession{{Session: e.session}}, Routes: []store.Route{guardedRoute}, Until: e.clock.Now().Add(1000 * time.Hour), Hinted: true,
			})
			if err != nil {
				t.Error(err)
			}
			got <- w
		}()
		if e.listening(1); n == 0 { // only the first Wait probes
			e.check(e.clock.AwaitAlarm(e.ctx))
		}
		if n < 2 {
			e.start("")
			e.woken(fmt.Sprint("Wait ", n), got, store.Woken{Hinted: []int{0}})
			claimed, err := e.Claim(e.ctx, store.Claim{Session: e.session, Token: event.NewToken(), Routes: []store.Route{guardedRoute}, Max: 1, Hinted: true})
			if e.check(err); len(claimed.Runs) != 1 {
				t.Errorf("the hinted claim hands out %d runs, want 1", len(claimed.Runs))
			}
			continue
		}
		e.check(e.client.Publish(e.ctx, e.parts[0].hints(), "b"+e.names.codeOf(guardedRoute)).Err())
		e.woken("a Wait after a block", got, store.Woken{Claim: []int{0}})
	}
	if n := e.looks.done.Load(); n != 1 {
		t.Errorf("there were %d looks, want 1", n)
	}
}

// TestREC5_AHintedClaimReportsATakenWakeIfManySessionsAreEstimated proves that a hinted claim
// publishes the routes that it has emptied if the waiter estimate of its store is high. A node of a
// cluster may have only one subscription, so the number of subscriptions is not sufficient.
func TestREC5_AHintedClaimReportsATakenWakeIfManySessionsAreEstimated(t *testing.T) {
	g := openGuarded(t)
	session, code := g.session(), g.names.codeOf(guardedRoute)
	for range 20 {
		g.waiterEstimate.note([]string{code}, false)
	}
	listener := g.client.Subscribe(g.ctx, g.parts[0].hints())
	defer listener.Close()
	if _, err := listener.Receive(g.ctx); err != nil {
		t.Fatal(err)
	}
	g.start("")
	claim := store.Claim{Session: session, Token: event.NewToken(), Routes: []store.Route{guardedRoute}, Max: 1, Hinted: true}
	got, err := g.Claim(g.ctx, claim)
	if g.check(err); len(got.Runs) != 1 {
		t.Fatalf("claimed %d runs, want 1", len(got.Runs))
	}
	g.check(g.client.Publish(g.ctx, g.parts[0].hints(), "end").Err())
	for {
		message, err := listener.ReceiveMessage(g.ctx)
		g.check(err)
		switch message.Payload {
		case "t" + code:
			return
		case "end":
			t.Fatal("the claim has not reported the taken wake")
		}
	}
}
