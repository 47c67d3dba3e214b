package steps_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/examples/guide/steps"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a worker with the given dependencies on a memory store whose clock is stopped.
func serve(t *testing.T, archive *steps.Archive, bank *steps.Bank, courier *steps.Courier) (*workflow.Client, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	st := memstore.NewWith(memstore.Config{Clock: clock})
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{Heartbeat: 10_000 * time.Hour, ClaimExpiry: 20_000 * time.Hour})
	steps.Register(w, archive, bank, courier)
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

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// free returns a bank and a courier that accept all calls.
func free() (*steps.Bank, *steps.Courier) {
	return &steps.Bank{Book: func(_ context.Context, _, customer string, _ int64) (string, error) {
			return "paid by " + customer, nil
		}},
		&steps.Courier{Call: func(context.Context, string) error { return nil }}
}

var order = steps.Order{ID: "o1", Customer: "ada", Cents: 4990, Address: "12 Row"}

func TestSell_TakesTheMoneyOnce(t *testing.T) {
	bank, courier := free()
	client, _ := serve(t, &steps.Archive{}, bank, courier)
	got, err := steps.Sell.Execute(limited(t), client, order)
	if d := cmp.Diff(steps.Receipt{Payment: "paid by ada", Cents: 4990}, got); err != nil || d != "" {
		t.Errorf("Sell: %v (-want +got)\n%s", err, d)
	}
}

func TestCharge_IsNotRepeatedAfterADeclinedCard(t *testing.T) {
	bank, courier := free()
	booked := 0
	bank.Book = func(context.Context, string, string, int64) (string, error) {
		booked++
		return "", fmt.Errorf("book: %w", &steps.DeclinedError{Reason: "expired"})
	}
	client, _ := serve(t, &steps.Archive{}, bank, courier)
	_, err := steps.Sell.Execute(limited(t), client, order)
	var noCard *steps.NoCardError
	if !errors.As(err, &noCard) || noCard.Customer != "ada" {
		t.Errorf("got %v, want a NoCardError of ada", err)
	}
	if booked != 1 {
		t.Errorf("the bank was asked %d times, want once", booked)
	}
}

func TestCharge_WaitsAsLongAsTheBankSaysAndKeepsItsKey(t *testing.T) {
	bank, courier := free()
	var mu sync.Mutex
	keys := map[string]int{}
	bank.Book = func(_ context.Context, key, _ string, _ int64) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		keys[key]++
		if keys[key] == 1 {
			return "", &steps.BusyError{Wait: 2 * time.Hour}
		}
		return "paid", nil
	}
	client, clock := serve(t, &steps.Archive{}, bank, courier)
	run, err := steps.Sell.Start(limited(t), client, order)
	if err != nil {
		t.Fatal(err)
	}
	e := first(t, run, event.StepRetrying)
	if got := e.Due.Sub(clock.Now()); got != 2*time.Hour {
		t.Errorf("the next attempt is due in %v, want 2h", got)
	}
	if _, err := pass(t, clock, 2*time.Hour, run); err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 {
		t.Errorf("the attempts had %d keys, want one: %v", len(keys), keys)
	}
}

// pass advances the clock by d, repeatedly, until a run has ended.
func pass[T any](t *testing.T, clock *storetest.Clock, d time.Duration, run *workflow.Run[T]) (v T, err error) {
	t.Helper()
	clock.Advance(d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v, err = run.Result(limited(t))
	}()
	for {
		select {
		case <-ended:
			return v, err
		case <-time.After(time.Millisecond):
			clock.Advance(d)
		}
	}
}

func first[T any](t *testing.T, run *workflow.Run[T], typ event.Type) event.Event {
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

func TestCheck_WithoutAnAddressIsFatal(t *testing.T) {
	bank, courier := free()
	client, _ := serve(t, &steps.Archive{}, bank, courier)
	_, err := steps.Sell.Execute(limited(t), client, steps.Order{ID: "o2"})
	var failed *steps.NoCardError
	var step *workflow.StepError
	if errors.As(err, &failed) || !errors.As(err, &step) {
		t.Fatalf("got %v, want the error of a step", err)
	}
	if step.Step != "steps.check" || step.Code != "fatal" || step.Attempts != 1 {
		t.Errorf("got %s, code %s, after %d attempts; want steps.check, fatal, 1", step.Step, step.Code, step.Attempts)
	}
}

func TestFetch_HasTheKeyOfItsOrder(t *testing.T) {
	bank, courier := free()
	client, _ := serve(t, &steps.Archive{}, bank, courier)
	run, err := steps.Sell.Start(limited(t), client, order)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for e, err := range run.Events(limited(t), workflow.Types(event.StepCreated)) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	want := []string{"sell/steps.check#1", "sell/steps.charge#1", "sell/steps.fetch[o1]"}
	if d := cmp.Diff(want, keys); d != "" {
		t.Errorf("keys (-want +got)\n%s", d)
	}
}

func TestCopyAll_GoesOnWhereTheAttemptBeforeStopped(t *testing.T) {
	bank, courier := free()
	var from []int
	archive := &steps.Archive{Rows: 3000, Copy: func(_ context.Context, begin, _ int) error {
		from = append(from, begin)
		if len(from) == 3 {
			return errors.New("disk is full")
		}
		return nil
	}}
	client, clock := serve(t, archive, bank, courier)
	run, err := steps.Move.Start(limited(t), client, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	first(t, run, event.StepRetrying)
	got, err := pass(t, clock, time.Second, run)
	if err != nil || got != 3000 {
		t.Fatalf("got %d, %v, want 3000", got, err)
	}
	if d := cmp.Diff([]int{0, 1000, 2000, 2000}, from); d != "" {
		t.Errorf("copied from (-want +got)\n%s", d)
	}
}

func TestCollect_ReplacesThePolicyOfTheDirective(t *testing.T) {
	bank, courier := free()
	booked := 0
	bank.Book = func(context.Context, string, string, int64) (string, error) {
		if booked++; booked < 8 { // The directive permits six attempts.
			return "", errors.New("bank is closed")
		}
		return "paid", nil
	}
	client, clock := serve(t, &steps.Archive{}, bank, courier)
	run, err := steps.Collect.Start(limited(t), client, steps.CollectInput{Customer: "ada", Cents: 1})
	if err != nil {
		t.Fatal(err)
	}
	first(t, run, event.StepRetrying)
	if _, err := pass(t, clock, time.Minute, run); err != nil {
		t.Error(err)
	}
	if booked != 8 {
		t.Errorf("the bank was asked %d times, want 8", booked)
	}
}
