package notify_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

type (
	message  = notify.Message[string, int]
	awaiting = notify.Awaiting[string, int]
)

func texts(all []message) []string {
	var texts []string
	for _, m := range all {
		texts = append(texts, fmt.Sprintf("%s %d %v", m.Topic, m.Body, m.Look))
	}
	return texts
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// within returns a context that ends if the test hangs.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestAwait_LosesNoWakeBetweenLookAndWait proves that no notification is lost between a query and
// the wait that follows. Each step is published once, and only after all readers have seen the
// previous step, so a lost notification stops the test.
func TestAwait_LosesNoWakeBetweenLookAndWait(t *testing.T) {
	const readers, steps = 4, 200
	ctx, n := within(t), notify.New[string, int](nil)
	var made atomic.Int64
	seen := make(chan error, readers)
	for range readers {
		go func() {
			for step := int64(1); step <= steps; step++ {
				s := n.Subscribe("log")
				err := s.Await(ctx, awaiting{Look: func() (int, bool, error) {
					now := made.Load()
					runtime.Gosched() // a notification could be lost here
					return int(now), now >= step, nil
				}})
				s.Close()
				if seen <- err; err != nil {
					return
				}
			}
		}()
	}
	for step := range steps {
		made.Add(1)
		n.Notify("log")
		for range readers {
			if err := <-seen; err != nil {
				t.Fatalf("step %d of %d: %v", step+1, steps, err)
			}
		}
	}
}

// TestCompare_LosesNoWakeBetweenLookAndWait proves the same for a poller, which notifies only the
// subscriptions that have not seen the state.
func TestCompare_LosesNoWakeBetweenLookAndWait(t *testing.T) {
	const steps = 200
	ctx, n := within(t), notify.New[string, int](nil)
	var made atomic.Int64
	seen := make(chan error, 1)
	go func() {
		for step := int64(1); step <= steps; step++ {
			s := n.Subscribe("log")
			err := s.Await(ctx, awaiting{Look: func() (int, bool, error) {
				now := made.Load()
				runtime.Gosched()
				return int(now), now >= step, nil
			}})
			s.Close()
			if seen <- err; err != nil {
				return
			}
		}
	}()
	for step := range steps {
		n.Compare("log", int(made.Add(1)))
		if err := <-seen; err != nil {
			t.Fatalf("step %d of %d: %v", step+1, steps, err)
		}
	}
}

// TestCompare_TellsThoseWhoHaveNotSaidYetWhatTheySaw proves that an observation during the query of
// a subscription is not lost. It is compared with the result of the query.
func TestCompare_TellsThoseWhoHaveNotSaidYetWhatTheySaw(t *testing.T) {
	for name, found := range map[string]int{"another": 2, "the same": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := notify.New[string, int](nil)
				s := n.Subscribe("log")
				defer s.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				looks := 0
				_ = s.Await(ctx, awaiting{Look: func() (int, bool, error) {
					if looks++; looks == 1 {
						n.Compare("log", found)
						return 1, false, nil
					}
					return found, false, nil
				}})
				equal(t, "looks", looks, found)
			})
		})
	}
}

func TestCompare_TellsOnlyThoseWhoHaveSeenSomethingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string, int](nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var looks [3]atomic.Int64
		for seen := range looks {
			go func() {
				s := n.Subscribe("log")
				defer s.Close()
				_ = s.Await(ctx, awaiting{Look: func() (int, bool, error) {
					looks[seen].Add(1)
					return seen, false, nil
				}})
			}()
		}
		synctest.Wait()
		equal(t, "resting", n.Resting("log"), 3)
		n.Compare("log", 1)
		synctest.Wait()
		equal(t, "looks", []int64{looks[0].Load(), looks[1].Load(), looks[2].Load()}, []int64{2, 1, 2})
		equal(t, "resting after that", n.Resting("log"), 3)
	})
}

func TestAwait_LooksOnceForManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string, int](nil)
		s := n.Subscribe("log")
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		_ = s.Await(ctx, awaiting{Look: func() (int, bool, error) {
			if looks++; looks == 1 {
				for range 100 {
					n.Notify("log")
				}
			}
			return 0, false, nil
		}})
		equal(t, "looks", looks, 2)
	})
}

func TestAwait_JudgesMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify.New[string, int](nil)
		s := n.Subscribe("log")
		defer s.Close()
		var looks int
		ended := make(chan error, 1)
		go func() {
			ended <- s.Await(t.Context(), awaiting{
				Look:  func() (int, bool, error) { looks++; return 0, false, nil },
				Judge: func(m message) notify.Verdict { return notify.Verdict(m.Body) },
			})
		}()
		for _, c := range []struct{ body, looks int }{{int(notify.Ignore), 1}, {int(notify.Look), 2}, {int(notify.Ignore), 2}} {
			synctest.Wait()
			n.Publish("log", c.body)
			synctest.Wait()
			equal(t, fmt.Sprintf("looks after %d", c.body), looks, c.looks)
		}
		n.Publish("log", int(notify.Done))
		equal(t, "error", <-ended, nil)
		equal(t, "looks at the end", looks, 2)
	})
}

func TestAwait_LooksByItselfWhenItsPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := notify.New[string, int](nil).Subscribe("log")
		defer s.Close()
		begin, looks := time.Now(), 0
		err := s.Await(t.Context(), awaiting{Patience: time.Minute, Look: func() (int, bool, error) {
			looks++
			return 0, looks == 3, nil
		}})
		equal(t, "error", err, nil)
		equal(t, "time", time.Since(begin), 2*time.Minute)
	})
}

func TestAwait_EndsWithItsNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		n := notify.New[string, int](done)
		ended := make(chan error, 100)
		for range cap(ended) {
			go func() {
				s := n.Subscribe("log")
				defer s.Close()
				ended <- s.Await(t.Context(), awaiting{Look: func() (int, bool, error) { return 0, false, nil }})
			}()
		}
		synctest.Wait()
		close(done)
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, store.ErrClosed) {
				t.Errorf("got %v, want %v", err, store.ErrClosed)
			}
		}
		synctest.Wait()
		equal(t, "topics left", n.Topics(), nil)
	})
}

func TestSubscription_ThatHasTooMuchToRememberLooksEverywhere(t *testing.T) {
	n := notify.New[string, int](nil)
	s := n.Subscribe("a", "b", "a")
	defer s.Close()
	n.Publish("b", -1)
	for i := range 1002 {
		n.Publish("a", i)
	}
	equal(t, "messages", texts(s.Take()), []string{"a 0 true", "b 0 true"})
}

func TestClose_LeavesNothingOfATopicWithoutSubscriptions(t *testing.T) {
	n := notify.New[string, int](nil)
	var all []*notify.Subscription[string, int]
	for i := range 100 {
		all = append(all, n.Subscribe("all", fmt.Sprint(i%7), fmt.Sprint(i%5)))
	}
	for i := range all {
		all[i*37%100].Close() // closed in another order than opened
		n.Publish("all", i)
	}
	equal(t, "topics", n.Topics(), nil)
	equal(t, "anybody", n.Any(), false)
	for i, s := range all {
		if told := len(s.Take()); told > 99 {
			t.Errorf("subscription %d was told %d times", i, told)
		}
	}
}

// asked is a source that records the calls of its methods.
type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) ask(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, what)
}
func (a *asked) Subscribe(topic string)   { a.ask("+" + topic) }
func (a *asked) Unsubscribe(topic string) { a.ask("-" + topic) }

func (a *asked) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	slices.Sort(all)
	return all
}

func TestSource_IsAskedForATopicFromTheFirstSubscriptionUntilAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &asked{}
		n := notify.NewWithSource[string, int](nil, source, time.Minute)
		a, b := n.Subscribe("x", "y"), n.Subscribe("x")
		equal(t, "at first", source.since(), []string{"+x", "+y"})
		a.Close()
		time.Sleep(2 * time.Minute)
		n.Sweep()
		equal(t, "when one has left", source.since(), []string{"-y"})
		b.Close()
		n.Sweep()
		equal(t, "when all have left", source.since(), nil)
		b = n.Subscribe("x")
		time.Sleep(2 * time.Minute)
		n.Sweep()
		equal(t, "when one has come again", source.since(), nil)
		n.Resubscribe(func() { source.ask("reset") })
		equal(t, "again", source.since(), []string{"+x", "reset"})
		b.Close()
		time.Sleep(time.Minute)
		n.Sweep()
		equal(t, "a minute after the last", source.since(), []string{"-x"})
		equal(t, "topics", n.Topics(), nil)
	})
}

func TestConfirm_LetsThoseWhoWereConfirmedBeforeLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := notify.NewWithSource[string, int](nil, &asked{}, time.Minute)
		s := n.Subscribe("x")
		defer s.Close()
		begin := time.Now()
		equal(t, "error", s.Confirmed(t.Context(), time.Second), nil)
		equal(t, "time without a source", time.Since(begin), time.Second)
		n.Confirm("x")
		equal(t, "error", s.Confirmed(t.Context(), time.Hour), nil)
		equal(t, "time with one", time.Since(begin), time.Second)
		equal(t, "after the first", texts(s.Take()), nil)
		n.Confirm("x")
		n.Confirm("unknown")
		equal(t, "after the second", texts(s.Take()), []string{"x 0 true"})
	})
}
