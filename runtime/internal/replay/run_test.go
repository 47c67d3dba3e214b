package replay

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const testRun = event.RunID("wrun_01JGFJJZ00000000000000000A")

// host drives a run like a worker and keeps the log of the run.
type host struct {
	t   testing.TB
	run *Run
	log []event.Event
	now time.Time
}

// load returns a host whose run has no events.
func load(t testing.TB, code Program) *host {
	t.Helper()
	pool := &Pool{}
	h := &host{t: t, run: New(testRun, "flow", code, pool), now: t0}
	t.Cleanup(func() {
		h.run.Close()
		pool.Close()
		if n := h.run.Branches(); n != 0 {
			t.Errorf("%d branches are open after Close", n)
		}
	})
	return h
}

// begin returns a host whose run has started.
func begin(t testing.TB, code Program) *host {
	t.Helper()
	h := load(t, code)
	h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}, Payload: []byte(`"input"`)})
	h.apply(event.Event{Type: event.RunStarted, By: "w"})
	return h
}

// apply applies an event at the host's time.
func (h *host) apply(e event.Event) {
	h.t.Helper()
	if e.Time.IsZero() {
		e.Time = h.now
	}
	if err := h.run.Apply(e); err != nil {
		h.t.Fatalf("apply %s: %v", e.Type, err)
	}
	h.log = append(h.log, h.run.Take()...)
}

// start starts the oldest step that was never started.
func (h *host) start() uint64 {
	h.t.Helper()
	op := h.run.Startable()
	if op == nil {
		h.t.Fatal("no step can be started")
	}
	h.apply(event.Event{Type: event.StepStarted, Ref: op.Ref, Attempt: 1, By: "w"})
	return op.Ref
}

func (h *host) complete(ref uint64, result string) {
	h.t.Helper()
	h.apply(event.Event{Type: event.StepCompleted, Ref: ref, Attempt: 1, Payload: []byte(result)})
}

func (h *host) send(topic, payload string) {
	h.t.Helper()
	h.apply(event.Event{Type: event.MessageReceived, Name: topic, Item: event.ItemID(fmt.Sprint("item-", len(h.log))), Payload: []byte(payload)})
}

// fire makes a wait due.
func (h *host) fire(ref uint64) {
	h.t.Helper()
	if o := h.run.State().Open(ref); o != nil && o.Due.After(h.now) {
		h.now = o.Due
	}
	h.apply(event.Event{Type: event.WaitCompleted, Ref: ref, Outcome: event.OutcomeDue})
}

func (h *host) cancel() {
	h.t.Helper()
	h.apply(event.Event{Type: event.CancelRequested, Reason: "test", Item: "cancel"})
}

// lines returns the log in short form, without the first two events.
func (h *host) lines() []string {
	var all []string
	for i := range h.log {
		if e := &h.log[i]; e.Seq > 2 {
			all = append(all, strings.TrimSpace(describe(e)+" "+string(e.Payload)))
		}
	}
	return all
}

func (h *host) want(lines ...string) {
	h.t.Helper()
	if diff := cmp.Diff(lines, h.lines()); diff != "" {
		h.t.Errorf("log (-want +got):\n%s", diff)
	}
}

// replay replays the host's log with code, in one page, and returns the new host.
func (h *host) replay(code Program) *host {
	h.t.Helper()
	again := load(h.t, code)
	if err := again.run.Replay(h.log); err != nil {
		h.t.Fatalf("replay: %v", err)
	}
	if out := again.run.Take(); len(out) > 0 {
		h.t.Errorf("the replay has new events, the first one is %s", describe(&out[0]))
	}
	again.log, again.now = h.log, h.now
	return again
}

// mismatch replays the host's log with code that does not match. It returns the error.
func (h *host) mismatch(code Program) *MismatchError {
	h.t.Helper()
	err := load(h.t, code).run.Replay(h.log)
	var m *MismatchError
	if !errors.As(err, &m) {
		h.t.Fatalf("replay gives %v, want a *MismatchError", err)
	}
	return m
}

func sameEvents(t testing.TB, want, got []event.Event) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("events (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// doStep calls a step like a generated step function.
func doStep(b *Branch, s *Scope, name, input string) *Op {
	return b.Step(s, name, b.Key(name), []byte(input), nil, func(recorded []byte) string { return DiffJSON(recorded, []byte(input)) })
}

// spawn opens a branch like workflow.Go.
func spawn(b *Branch, s *Scope, f func(*Branch) any) *Promise {
	p := NewPromise(s)
	b.Open(b.Key("go"), Here(0), func(b *Branch) {
		b.Makes(p)
		p.Resolve(f(b))
	})
	return p
}

func done(result string) Ending {
	return Ending{Type: event.RunCompleted, Payload: []byte(result)}
}
