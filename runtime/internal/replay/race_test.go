package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/google/go-cmp/cmp"
)

func TestSelect_LosersConsumeNothing(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		var all []string
		p := spawn(b, s, func(b *Branch) any { return doStep(b, s, "p.s", "1") })
		for range 3 {
			won, e, err := b.Select(s, []Case{{Topic: "a"}, {Promise: p}, {Topic: "b"}})
			all = append(all, fmt.Sprintf("%d %s %v", won, payloadOf(e), err))
			if won == 1 {
				break
			}
		}
		for _, topic := range []string{"a", "b"} {
			all = append(all, topic+" "+payloadOf(b.TryReceive(topic)))
		}
		return done(strings.Join(all, ", "))
	}
	h := begin(t, code)
	h.send("b", "1")
	h.complete(h.start(), "1")
	if got := string(h.log[len(h.log)-1].Payload); got != "2 1 <nil>, 1 nothing <nil>, a nothing, b nothing" {
		t.Errorf("the code saw %s", got)
	}
	for _, o := range h.open() {
		t.Errorf("%s of event %d is still open", o.Entity, o.Ref)
	}
	h.replay(code)
}

func TestSelect_TieGoesToTheFirstInTheList(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		_ = b.Sleep(s, t0.Add(time.Second))
		won, e, _ := b.Select(s, []Case{{Topic: "none"}, {Topic: "b"}, {Topic: "a"}, {Due: t0}})
		return done(fmt.Sprintf("%d %s", won, payloadOf(e)))
	})
	h.send("a", "1")
	h.send("b", "2")
	h.fire(3)
	if got := string(h.log[len(h.log)-1].Payload); got != "1 2" {
		t.Errorf("the winner is %s, want 1 2", got)
	}
}

func TestTopic_EachMessageGoesToOneInTheOrderOfWaiting(t *testing.T) {
	var got []string
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		got = nil
		for i := range 4 {
			spawn(b, s, func(b *Branch) any {
				var e *event.Event
				if i%2 == 0 {
					_, e, _ = b.Select(s, []Case{{Topic: "a"}, {Topic: "a"}, {Due: t0.Add(time.Hour)}})
				} else {
					e, _ = b.Receive(s, "a", t0.Add(time.Hour))
				}
				got = append(got, fmt.Sprint(i, "=", payloadOf(e)))
				return nil
			})
		}
		_, _ = b.Receive(s, "end", time.Time{})
		got = append(got, "unread="+payloadOf(b.TryReceive("a")))
		return done("")
	}
	h := begin(t, code)
	for i := range 5 {
		h.send("a", fmt.Sprint("m", i))
	}
	h.send("end", "1")
	want := []string{"0=m0", "1=m1", "2=m2", "3=m3", "unread=m4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	h.replay(code)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("received in replay (-want +got):\n%s", diff)
	}
}

func TestSelect_MessageThatWonIsKeptWhenTheScopeEndsFirst(t *testing.T) {
	for name, first := range map[string]bool{"message first": true, "cancel first": false} {
		t.Run(name, func(t *testing.T) {
			code := func(b *Branch, s *Scope, _ []byte) Ending {
				sub := b.NewScope(s)
				p := spawn(b, s, func(b *Branch) any {
					won, e, err := b.Select(sub, []Case{{Topic: "a"}, {Due: t0.Add(time.Hour)}})
					return fmt.Sprintf("%d %s %v", won, payloadOf(e), err)
				})
				_, _ = b.Receive(s, "cancel", time.Time{})
				sub.Cancel()
				v, _ := b.Await(s, p, "the branch")
				return done(fmt.Sprint(v, " left ", payloadOf(b.TryReceive("a"))))
			}
			h := begin(t, code)
			want := "-1 nothing workflow: canceled left nothing"
			if first {
				h.send("a", "1")
				want = "0 1 <nil> left nothing"
			}
			h.send("cancel", "")
			if got := string(h.log[len(h.log)-1].Payload); got != want {
				t.Errorf("the code saw %s, want %s", got, want)
			}
			h.replay(code)
		})
	}
}

// TestSelect_PromiseThatWonIsKeptWhenTheScopeEndsInTheSameActivation proves that a Select returns
// the value of the winning promise although another branch ends the scope in the same activation,
// before the winner runs.
func TestSelect_PromiseThatWonIsKeptWhenTheScopeEndsInTheSameActivation(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		sub, p := b.NewScope(s), NewPromise(s)
		racer := spawn(b, s, func(b *Branch) any {
			won, _, err := b.Select(sub, []Case{{Promise: p}, {Topic: "a"}, {Due: t0.Add(time.Hour)}})
			return fmt.Sprint(won, err)
		})
		_, _ = b.Receive(s, "go", time.Time{})
		p.Resolve(1)
		sub.Cancel()
		v, _ := b.Await(s, racer, "the racer")
		return done(fmt.Sprint(v))
	}
	h := begin(t, code)
	h.send("go", "")
	if got := string(h.log[len(h.log)-1].Payload); got != "0 <nil>" {
		t.Errorf("the code saw %s", got)
	}
	if len(h.open()) > 0 {
		t.Errorf("%d waits are still open", len(h.open()))
	}
	h.replay(code)
}

func TestReceive_TimeoutAndLateMessage(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		_, first := b.Receive(s, "a", t0.Add(time.Second))
		_, passed := b.Receive(s, "a", t0)
		e, second := b.Receive(s, "a", t0.Add(time.Hour))
		return done(fmt.Sprint(first, "/", passed, "/", payloadOf(e), "/", second))
	}
	h := begin(t, code)
	h.fire(3)
	h.send("a", "late")
	if got := string(h.log[len(h.log)-1].Payload); got != "workflow: nothing was received in time/workflow: nothing was received in time/late/<nil>" {
		t.Errorf("the code saw %s", got)
	}
	h.replay(code)
}

func TestUnread_IsInTheOrderOfTheLog(t *testing.T) {
	h := begin(t, sleeper)
	var want []string
	for i := range 30 {
		h.send(fmt.Sprint("topic", i%7), fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	var got []string
	h.run.Unread(func(e *event.Event) bool {
		got = append(got, string(e.Payload))
		return len(got) < 25
	})
	if diff := cmp.Diff(want[:25], got); diff != "" {
		t.Errorf("unread (-want +got):\n%s", diff)
	}
}

// TestUntil_IsNeverSoonerThanAsked proves that a wait does not end too early although the time that
// code observes is truncated to the millisecond.
func TestUntil_IsNeverSoonerThanAsked(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		return done(fmt.Sprint(b.Sleep(s, b.Until(5*time.Millisecond))))
	}
	h := load(t, code)
	at := t0.Add(900 * time.Microsecond)
	h.apply(event.Event{Type: event.RunCreated, Time: t0, Spec: &event.Spec{Workflow: "p.flow"}})
	h.apply(event.Event{Type: event.RunStarted, Time: at, By: "w"})
	e := h.log[len(h.log)-1]
	if want := t0.Add(6 * time.Millisecond); e.Type != event.WaitCreated || !e.Due.Equal(want) {
		t.Errorf("got %s, due %v after the start, want %v", e.Type, e.Due.Sub(t0), want.Sub(t0))
	}
	h.fire(3)
	h.replay(code)
}
