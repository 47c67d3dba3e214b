package flows_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a worker on a memory store. The clock of the store advances only when the test
// advances it.
func serve(t *testing.T, fleet *flows.Fleet) (*workflow.Client, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	st := memstore.NewWith(memstore.Config{Clock: clock})
	client := workflow.NewClient(st, workflow.ClientConfig{})
	// The lease must be long, so that it does not end when the test advances the clock by a month.
	w := worker.New(client, worker.Config{Heartbeat: 10_000 * time.Hour, ClaimExpiry: 20_000 * time.Hour})
	flows.Register(w, fleet)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return client, clock
}

// followed is a handle of a run with a result of any type.
type followed interface {
	Events(ctx context.Context, opts ...workflow.ReadOption) iter.Seq2[event.Event, error]
}

// await waits until the log of a run contains an event of the type typ, and returns the first such
// event.
func await(t *testing.T, run followed, typ event.Type) event.Event {
	t.Helper()
	for e, err := range run.Events(limited(t), workflow.Types(typ)) {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatalf("the run ended without %s", typ)
	return event.Event{}
}

// pass advances the clock by d. Then it advances the clock by single seconds until the run has an
// event of the type typ.
func pass(t *testing.T, clock *storetest.Clock, d time.Duration, run followed, typ event.Type) {
	t.Helper()
	clock.Advance(d)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		await(t, run, typ)
	}()
	for {
		select {
		case <-seen:
			return
		case <-time.After(time.Millisecond):
			clock.Advance(time.Second)
		}
	}
}

// limited returns a context that ends before the timeout of the test.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCoupon_ComesAfterThirtyDays(t *testing.T) {
	client, clock := serve(t, &flows.Fleet{})
	run, err := flows.Coupon.Start(limited(t), client, "ada")
	if err != nil {
		t.Fatal(err)
	}
	begin, wait := clock.Now(), await(t, run, event.WaitCreated)
	if left := wait.Due.Sub(begin); left != 30*24*time.Hour {
		t.Errorf("the run waits for %v, want 30 days", left)
	}
	pass(t, clock, 30*24*time.Hour, run, event.RunCompleted)
	got, err := run.Result(limited(t))
	if err != nil || !strings.HasSuffix(got, " for ada") {
		t.Errorf("got %q, %v, want a coupon for ada", got, err)
	}
}

func TestCheapest_IsTheBestOfAllOffers(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	got, err := flows.Cheapest.Execute(limited(t), client, []string{"fedex", "ups", "hermes"})
	if err != nil || got.Carrier != "ups" {
		t.Errorf("got %+v, %v, want the offer of ups", got, err)
	}
}

func TestReview_RemindsOnceADayAndEndsWithTheVerdict(t *testing.T) {
	client, clock := serve(t, &flows.Fleet{})
	run, err := flows.StartOnce(limited(t), client, "spec")
	if err != nil {
		t.Fatal(err)
	}
	if err := flows.Comment.Send(limited(t), run, "nice"); err != nil {
		t.Fatal(err)
	}
	await(t, run, event.MessageReceived)
	pass(t, clock, 24*time.Hour, run, event.StepCompleted)
	for range 2 { // The second send simulates a double click. It is accepted even if the run has ended.
		if err := flows.Approve(limited(t), client, "spec", "ann", "click-1"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := run.Result(limited(t))
	if want := "spec: true by ann (nice)"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	verdicts := 0
	for e, err := range run.Events(limited(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.MessageReceived && e.Name == flows.Verdict.Name() {
			verdicts++
		}
		verdicts += len(e.Unread)
	}
	if verdicts != 1 {
		t.Errorf("the run got %d verdicts, want 1", verdicts)
	}
}

func TestSign_GivesUpAfterThreeDays(t *testing.T) {
	client, clock := serve(t, &flows.Fleet{})
	run, err := flows.Sign.Start(limited(t), client, "lease")
	if err != nil {
		t.Fatal(err)
	}
	await(t, run, event.WaitCreated)
	pass(t, clock, 72*time.Hour, run, event.RunCompleted)
	got, err := run.Result(limited(t))
	if err != nil || got.By != "nobody" {
		t.Errorf("got %+v, %v, want nobody", got, err)
	}
}

func TestRent_GivesTheMachineBackWhenTheHourIsOver(t *testing.T) {
	fleet := &flows.Fleet{}
	client, clock := serve(t, fleet)
	run, err := flows.Rent.Start(limited(t), client, "m1")
	if err != nil {
		t.Fatal(err)
	}
	await(t, run, event.StepCompleted)
	if !fleet.Taken("m1") {
		t.Error("the machine is not taken")
	}
	pass(t, clock, time.Hour, run, event.RunCompleted)
	got, err := run.Result(limited(t))
	if err != nil || got != "the hour is over" || fleet.Taken("m1") {
		t.Errorf("got %q, %v, taken %v", got, err, fleet.Taken("m1"))
	}
}

func TestRent_GivesTheMachineBackAfterACancel(t *testing.T) {
	fleet := &flows.Fleet{}
	client, _ := serve(t, fleet)
	run, err := flows.Rent.Start(limited(t), client, "m1")
	if err != nil {
		t.Fatal(err)
	}
	await(t, run, event.StepCompleted)
	if err := run.Cancel(limited(t), "not needed"); err != nil {
		t.Fatal(err)
	}
	_, err = run.Result(limited(t))
	var ended *workflow.RunError
	if !errors.As(err, &ended) || ended.Status != workflow.StatusCanceled || !errors.Is(err, workflow.ErrCanceled) {
		t.Errorf("got %v, want a cancelled run", err)
	}
	if fleet.Taken("m1") {
		t.Error("the machine was not given back")
	}
	if err := run.Cancel(limited(t), "again"); err != nil {
		t.Errorf("a second cancel of the same run: %v", err)
	}
}

func TestStartOnce_FindsTheRunThatIsUnderWay(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	first, err := flows.StartOnce(limited(t), client, "spec")
	if err != nil {
		t.Fatal(err)
	}
	second, err := flows.StartOnce(limited(t), client, "spec")
	if err != nil || second.ID() != first.ID() || second.Created() {
		t.Errorf("got %v (created %v), %v, want the run %s", second.ID(), second.Created(), err, first.ID())
	}
	if err := flows.Approve(limited(t), client, "spec", "ann", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Result(limited(t)); err != nil {
		t.Fatal(err)
	}
	again, err := flows.StartEver(limited(t), client, "spec")
	if err != nil || again != first.ID() {
		t.Errorf("got %s, %v, want the finished run %s", again, err, first.ID())
	}
	third, err := flows.StartOnce(limited(t), client, "spec")
	if err != nil || !third.Created() {
		t.Errorf("a start after the end: created %v, %v", third != nil && third.Created(), err)
	}
}

func TestFollow_WritesWhatEnded(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	run, err := flows.Fastest.Start(limited(t), client, flows.FastestInput{A: "dhl", B: "gls"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := flows.Follow(limited(t), client, run.ID(), 0, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "step_completed 1\n") {
		t.Errorf("got %q, want a step that completed in its first attempt", out.String())
	}
}
