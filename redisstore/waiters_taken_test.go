package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// idleSession is a session with its own store. It waits for runs and claims when it is notified.
type idleSession struct {
	*Store

	id     store.SessionID
	looks  *looks
	claims atomic.Int64
}

// idleSessions opens n sessions. The first session probes at once, and each other session probes
// after the duration others.
func idleSessions(e *waitingStore, server *redistest.Server, n int, others time.Duration) (all []*idleSession) {
	e.t.Helper()
	for i := range n {
		client, own := server.Client(e.t), &looks{}
		client.AddHook(own)
		s, err := New(client, e.cfg)
		e.check(err)
		e.t.Cleanup(func() { _ = s.Close() })
		one := &idleSession{Store: s, id: store.SessionID(fmt.Sprint("idle ", i)), looks: own}
		e.check(s.OpenSession(e.ctx, store.Session{ID: one.id, Worker: "w", TTL: time.Hour, Routes: []store.Route{guardedRoute}}))
		s.waiterEstimate.decide = func() time.Duration {
			if i == 0 {
				return 0
			}
			return others
		}
		s.waiterEstimate.note([]string{s.names.codeOf(guardedRoute)}, false)
		s.waiterEstimate.note([]string{s.names.codeOf(guardedRoute)}, false)
		all = append(all, one)
	}
	return all
}

// listening waits until each session has probed. A later probe would take the wake of a run that
// the test starts, and the other sessions would not be notified.
func listening(e *waitingStore, all []*idleSession) {
	e.t.Helper()
	for _, s := range all {
		for s.looks.done.Load() == 0 {
			if e.ctx.Err() != nil {
				e.t.Fatalf("session %s has not looked", s.id)
			}
			runtime.Gosched()
		}
	}
}

// wait waits until the session is notified. It returns an error if ctx ends.
func (s *idleSession) wait(ctx context.Context, e *waitingStore) (store.Woken, error) {
	return s.Wait(ctx, store.Wait{
		Sessions: []store.WaitSession{{Session: s.id}}, Routes: []store.Route{guardedRoute}, Until: e.clock.Now().Add(1000 * time.Hour), Hinted: true,
	})
}

// claim claims after a notification. The claim is not hinted if the probe of the session has taken
// the wake, because a hinted claim must find the wake.
func (s *idleSession) claim(ctx context.Context, woken store.Woken, most int) ([]store.ClaimedRun, error) {
	s.claims.Add(1)
	got, err := s.Claim(ctx, store.Claim{Session: s.id, Token: event.NewToken(), Routes: []store.Route{guardedRoute}, Max: most, Hinted: len(woken.Claim) == 0})
	return got.Runs, err
}

// TestREC5_AWakeThatIsTakenIsLookedForByNoOtherSession proves that each wake causes about one
// claim, although 16 sessions receive it. One session probes at once and claims, and the others are
// notified that it has taken the wake. The first session finds each wake, so its waiter estimate
// does not grow. A session that receives a wake before it blocks claims without an estimate, which
// may add claims.
func TestREC5_AWakeThatIsTakenIsLookedForByNoOtherSession(t *testing.T) {
	const sessions, runs = 16, 10
	server := redistest.Shared(t)
	e := openWaiting(t, server.Client(t))
	all := idleSessions(e, server, sessions, time.Hour)
	ctx, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, sessions)
	claimed := make(chan event.RunID, runs)
	for _, s := range all {
		go func() {
			for {
				woken, err := s.wait(ctx, e)
				if err != nil {
					ended <- nil
					return
				}
				if len(woken.Hinted)+len(woken.Claim) == 0 {
					continue
				}
				got, err := s.claim(e.ctx, woken, 1)
				if err != nil {
					ended <- err
					return
				}
				for _, r := range got {
					claimed <- r.Run
				}
			}
		}()
	}
	listening(e, all)
	// told returns the number of times that a session was notified of a taken wake, has claimed, or
	// has probed after a reconnection.
	told := func(s *idleSession) int {
		s.waiterEstimate.mu.Lock()
		defer s.waiterEstimate.mu.Unlock()
		return s.waiterEstimate.looks[s.names.codeOf(guardedRoute)] - 2 + int(s.claims.Load()+s.looks.done.Load()-1)
	}
	for n := range runs {
		e.start("")
		select {
		case <-claimed:
		case err := <-ended:
			t.Fatalf("run %d: %v", n, err)
		case <-e.ctx.Done():
			t.Fatalf("run %d is claimed by no session", n)
		}
		for _, s := range all[1:] { // each other session is notified
			for told(s) < n+1 {
				if e.ctx.Err() != nil {
					t.Fatalf("run %d was taken, and session %s was not told", n, s.id)
				}
				runtime.Gosched()
			}
		}
	}
	cancel()
	for range sessions {
		e.check(<-ended)
	}
	total := int64(0)
	for _, s := range all {
		total += s.claims.Load()
	}
	if total < runs || total > 2*runs {
		t.Errorf("%d claims by %d sessions for %d runs, want about one for each", total, sessions, runs)
	}
}

// TestREC5_ARunThatTheFirstSessionDoesNotClaimGoesToAnother proves that another session finds a run
// if the session that probes first fails before its claim or has no free capacity. The other
// session has delayed its probe.
func TestREC5_ARunThatTheFirstSessionDoesNotClaimGoesToAnother(t *testing.T) {
	for name, claims := range map[string]bool{"it dies": false, "it has no room": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Shared(t)
			e := openWaiting(t, server.Client(t))
			all := idleSessions(e, server, 2, 20*time.Millisecond)
			for n := range 20 {
				told := make(chan error, 1)
				go func() {
					woken, err := all[0].wait(e.ctx, e)
					if err == nil && claims {
						_, err = all[0].claim(e.ctx, woken, 0)
					}
					told <- err
				}()
				claimed := make(chan error, 1)
				go func() {
					for {
						woken, err := all[1].wait(e.ctx, e)
						if err != nil {
							claimed <- err
							return
						}
						if len(woken.Hinted) == 0 {
							claimed <- fmt.Errorf("the session was told of %+v, and not of the run", woken)
							return
						}
						got, err := all[1].claim(e.ctx, woken, 1)
						if err != nil || len(got) == 1 {
							claimed <- err
							return
						}
					}
				}()
				if n == 0 { // in later rounds their subscriptions are open already
					listening(e, all)
				}
				e.start("")
				if err := <-told; err != nil {
					t.Fatalf("run %d: the first session: %v", n, err)
				}
				if err := <-claimed; err != nil {
					t.Fatalf("run %d: %v", n, err)
				}
			}
		})
	}
}
