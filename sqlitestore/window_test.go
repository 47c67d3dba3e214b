package sqlitestore

import (
	"context"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pause makes the next transaction with the given change of a table wait before its commit. reached
// is closed when the transaction waits. proceed lets it continue.
func pause(t *testing.T, s *Store, when string) (reached chan struct{}, proceed func()) {
	t.Helper()
	reached, resume := make(chan struct{}), make(chan struct{})
	proceed = sync.OnceFunc(func() { close(resume) })
	t.Cleanup(proceed)
	once := sync.OnceFunc(func() {
		close(reached)
		<-resume
	})
	check(t, s.write(testContext(t), func(tx *tx) error {
		err := tx.CreateFunction("pause", &sqlite.FunctionImpl{Scalar: func(sqlite.Context, []sqlite.Value) (sqlite.Value, error) {
			once()
			return sqlite.Value{}, nil
		}})
		if err != nil {
			return err
		}
		return tx.ExecOnce(`CREATE TEMP TRIGGER paused AFTER ` + when + ` BEGIN SELECT pause(); END`)
	}))
	return reached, proceed
}

// awaitable is an owned run with an empty inbox. Every kind of call can wait for it.
type awaitable struct {
	s      *Store
	ctx    context.Context
	commit store.Commit // continues the log of the run
}

// wait blocks without a time limit, so a missed notification fails the test.
func (a *awaitable) wait(routes ...store.Route) (store.Woken, error) {
	return a.s.Wait(a.ctx, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: routes})
}

// blocked reports whether a call blocks after it has read the state.
func (a *awaitable) blocked() bool {
	_, resting := a.s.notifier.waiters.Blocked()
	return resting == 1 || a.s.awaiting() == 1 || a.s.following() == 1
}

// TestWait_IsToldOfWhatWasAboutToBeCommittedWhenItBegan begins a call while a transaction is about
// to commit. The call does not read the changes of the transaction. The test proves that the call
// is notified after the commit.
func TestWait_IsToldOfWhatWasAboutToBeCommittedWhenItBegan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		when string // change at which the transaction pauses, before or after it has chosen the calls to notify
		do   func(a *awaitable) error
		wait func(a *awaitable) (told bool, err error)
	}{
		{"a wake", `UPDATE OF wake ON classes WHEN new.wake = 1`, func(a *awaitable) error {
			_, err := a.s.Create(a.ctx, []store.Create{newRun(10)})
			return err
		}, func(a *awaitable) (bool, error) {
			woken, err := a.wait(route)
			return len(woken.Claim) == 1, err
		}},
		{"mail", `INSERT ON inbox`, func(a *awaitable) error {
			_, err := a.s.Deliver(a.ctx, store.Deliver{Run: a.commit.Run, Item: store.Item{ID: "m", Body: []byte(`1`)}})
			return err
		}, func(a *awaitable) (bool, error) {
			woken, err := a.wait()
			return len(woken.Unread) == 1, err
		}},
		{"a due time", `UPDATE OF due ON runs WHEN new.due IS NOT NULL`, func(a *awaitable) error {
			c := a.commit
			c.Effect, c.Status, c.Due = store.EffectPark, event.StatusSleeping, time.Now().Add(time.Hour)
			return a.try(c)
		}, func(a *awaitable) (bool, error) {
			woken, err := a.wait()
			return len(woken.Sooner) == 1, err
		}},
		{"a frame", `INSERT ON frames`, func(a *awaitable) error { return a.try(a.commit) }, func(a *awaitable) (bool, error) {
			return true, a.s.Watch(a.ctx, a.commit.Run, 1)
		}},
		{"a chunk", `INSERT ON chunks`, func(a *awaitable) error {
			return a.s.Publish(a.ctx, a.commit.Run, a.commit.Fence, []store.Publication{{Stream: "x", Body: []byte("1")}})
		}, func(a *awaitable) (bool, error) {
			return true, a.s.AwaitStream(a.ctx, a.commit.Run, "x", 0)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := openTest(t)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			a := &awaitable{s: s, ctx: ctx, commit: startOwned(t, s, 1)[0]}
			a.commit.CommitID, a.commit.First, a.commit.Last = event.NewCommitID(), a.commit.Last+1, a.commit.Last+1
			reached, proceed := pause(t, s, c.when)
			<-s.foreign // stop the poller, which would notify the call as well
			done, ended := make(chan error, 1), make(chan error, 1)
			go func() { done <- c.do(a) }()
			<-reached
			told := false
			go func() {
				var err error
				told, err = c.wait(a)
				ended <- err
			}()
			eventually(t, "somebody waits", a.blocked)
			proceed()
			check(t, <-done)
			if err := <-ended; err != nil || !told {
				t.Errorf("got told %v and error %v, want to be told of %s", told, err, c.what)
			}
		})
	}
}

func (a *awaitable) try(c store.Commit) error {
	answers, err := a.s.Commit(a.ctx, []store.Commit{c})
	if err != nil {
		return err
	}
	return answers[0].Err
}

// TestWait_TakesAnotherWakeIfTheFirstIsGone proves that a Wait that has read the wakes of two
// routes takes the second if the first is gone when it consumes it.
func TestWait_TakesAnotherWakeIfTheFirstIsGone(t *testing.T) {
	s := openTest(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	other := store.Route{Queue: route.Queue, Workflow: "orders.refund"}
	first, second := newRun(10), newRun(10)
	second.Route = other
	_, err := s.Create(ctx, []store.Create{first, second})
	check(t, err)
	reached, proceed := pause(t, s, `UPDATE OF wake ON classes WHEN new.wake = 0`)
	<-s.foreign // stop the poller, which would notify the call as well
	type answered struct {
		woken store.Woken
		err   error
	}
	answers := make(chan answered, 2)
	wait := func(routes ...store.Route) {
		woken, err := s.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: routes})
		answers <- answered{woken, err}
	}
	go wait(route)
	<-reached
	go wait(route, other)
	eventually(t, "the second Wait has seen both wakes", func() bool { return !s.writer.idle() })
	proceed()
	for range 2 {
		if a := <-answers; a.err != nil || len(a.woken.Claim) != 1 {
			t.Errorf("wait: got %+v, %v, want to be told to claim", a.woken, a.err)
		}
	}
}

// TestWait_AnOlderReadDoesNotRepeatTheNotificationOfABlock blocks a run while the poller reads the
// database. A Wait that begins later must not claim because of the block.
func TestWait_AnOlderReadDoesNotRepeatTheNotificationOfABlock(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	ctx := testContext(t)
	for _, c := range startOwned(t, s, 2) {
		older, err := s.survey(ctx, nil, nil, nil)
		check(t, err)
		c.CommitID, c.First, c.Last = event.NewCommitID(), c.Last+1, c.Last+1
		c.Effect, c.Status = store.EffectBlock, event.StatusBlocked
		answers, err := s.Commit(ctx, []store.Commit{c})
		check(t, err)
		check(t, answers[0].Err)
		s.notifier.offer(older)
		woken, err := s.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: []store.Route{route}, Until: time.Now()})
		check(t, err)
		if len(woken.Claim) > 0 {
			t.Errorf("wait after a block of run %s: got claims from partitions %v, want none", c.Run, woken.Claim)
		}
	}
}
