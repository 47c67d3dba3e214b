package step_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/examples/guide/steps"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Directory examples/guide/steps contains the steps and workflows of these examples.

// serve starts a worker in this process. It returns a client, and a function that stops the worker
// and waits until it has ended.
func serve(archive *steps.Archive, bank *steps.Bank, courier *steps.Courier, interceptors ...workflow.Interceptor) (client *workflow.Client, stop func()) {
	st := memstore.New()
	var sends []workflow.Interceptor
	for _, i := range interceptors {
		if _, ok := i.(workflow.ClientInterceptor); ok {
			sends = append(sends, i)
		}
	}
	client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler), Interceptors: sends})
	w := worker.New(client, worker.Config{Interceptors: interceptors})
	steps.Register(w, archive, bank, courier) // generated function
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return client, func() {
		cancel()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			fmt.Println(err)
		}
	}
}

var courier = &steps.Courier{Call: func(context.Context, string) error { return nil }}

// All attempts of a step have the same idempotency key, so the bank books only once.
func ExampleIdempotencyKey() {
	booked := map[string]bool{}
	bank := &steps.Bank{Book: func(ctx context.Context, key, customer string, _ int64) (string, error) {
		if !booked[key] {
			booked[key] = true
			fmt.Println("attempt", step.Attempt(ctx), "books for", customer)
			return "", errors.New("connection lost before the answer")
		}
		fmt.Println("attempt", step.Attempt(ctx), "finds the booking")
		return "p-1", nil
	}}
	client, stop := serve(&steps.Archive{}, bank, courier)
	defer stop()
	receipt, err := steps.Sell.Execute(context.Background(), client, steps.Order{ID: "o1", Customer: "ada", Address: "12 Row"})
	fmt.Println(receipt.Payment, err)
	// Output:
	// attempt 1 books for ada
	// attempt 2 finds the booking
	// p-1 <nil>
}

// A fatal error fails the step at its first attempt, regardless of the retry policy.
func ExampleFatal() {
	client, stop := serve(&steps.Archive{}, &steps.Bank{}, courier)
	defer stop()
	_, err := steps.Sell.Execute(context.Background(), client, steps.Order{ID: "o1"})
	if failed, ok := errors.AsType[*workflow.StepError](err); ok {
		fmt.Println(failed.Step, failed.Code, failed.Attempts)
	}
	// Output: steps.check fatal 1
}

// RetryAfter replaces the delay of the retry policy for one retry.
func ExampleRetryAfter() {
	busy := true
	bank := &steps.Bank{Book: func(context.Context, string, string, int64) (string, error) {
		if busy {
			busy = false
			return "", &steps.BusyError{Wait: 30 * time.Millisecond}
		}
		return "p-1", nil
	}}
	client, stop := serve(&steps.Archive{}, bank, courier)
	defer stop()
	ctx := context.Background()
	run, err := steps.Sell.Start(ctx, client, steps.Order{ID: "o1", Address: "12 Row"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range run.Events(ctx, workflow.Types(event.StepRetrying)) {
		fmt.Println(e.Failure.Message)
	}
	receipt, err := run.Result(ctx)
	fmt.Println(receipt.Payment, err)
	// Output:
	// bank is busy for 30ms
	// p-1 <nil>
}

// An attempt reads the last heartbeat of the previous attempt and continues from there.
func ExampleHeartbeat() {
	full := true
	archive := &steps.Archive{Rows: 2500, Copy: func(ctx context.Context, from, to int) error {
		if full && from == 2000 {
			full = false
			return errors.New("disk is full")
		}
		fmt.Printf("attempt %d copies %d to %d\n", step.Attempt(ctx), from, to)
		return nil
	}}
	client, stop := serve(archive, &steps.Bank{}, courier)
	defer stop()
	fmt.Println(steps.Move.Execute(context.Background(), client, workflow.None{}))
	// Output:
	// attempt 1 copies 0 to 1000
	// attempt 1 copies 1000 to 2000
	// attempt 2 copies 2000 to 2500
	// 2500 <nil>
}

// Code that is shared by steps and other callers checks whether it runs in a step.
func ExampleCurrent() {
	_, inStep := step.Current(context.Background())
	fmt.Println(inStep)
	// Output: false
}
