package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Directory examples/guide/flows contains the workflows of these examples.

// serve starts a worker in this process. It returns a client, and a function that stops the worker
// and waits until it has ended.
func serve() (client *workflow.Client, stop func()) {
	st := memstore.New()
	client = workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	flows.Register(w, &flows.Fleet{}) // generated function
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

// Execute starts a run and waits for its result.
func ExampleDefinition_Execute() {
	client, stop := serve()
	defer stop()

	offer, err := flows.Cheapest.Execute(context.Background(), client, []string{"fedex", "ups", "hermes"})
	fmt.Println(offer.Carrier, offer.Cents, err)
	// Output: ups 300 <nil>
}

// With a workflow ID, a start can be repeated safely, because at most one run with that ID is
// active.
func ExampleDefinition_Start() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	first, err := flows.Review.Start(ctx, client, "spec", workflow.WithID("review-spec"))
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := flows.Review.Start(ctx, client, "spec", workflow.WithID("review-spec"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.Created(), again.Created(), first.ID() == again.ID())
	// Output: true false true
}

// StartMany starts many runs in one call. Each start has its own result.
func ExampleDefinition_StartMany() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	var requests []workflow.StartRequest[[]string]
	for _, carrier := range []string{"dhl", "hermes"} {
		requests = append(requests, workflow.StartRequest[[]string]{Input: []string{carrier}})
	}
	started, err := flows.Cheapest.StartMany(ctx, client, requests)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range started {
		offer, err := s.Run.Result(ctx)
		fmt.Println(offer.Carrier, errors.Join(s.Err, err))
	}
	// Output:
	// dhl <nil>
	// hermes <nil>
}

// Messages are kept until the code of the run receives them.
func ExampleTopic_Send() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	run, err := flows.Review.Start(ctx, client, "spec")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = errors.Join(
		flows.Comment.Send(ctx, run, "first"),
		flows.Comment.Send(ctx, run, "second", workflow.IdempotencyKey("a")),
		flows.Comment.Send(ctx, run, "second", workflow.IdempotencyKey("a")), // repeated with the same key, so the run receives it once
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Comments and verdict are different topics, so the run could receive the verdict first.
	awaitComments(ctx, run, 2)
	if err := flows.Verdict.Send(ctx, run, flows.Decision{By: "ann", OK: true}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: spec: true by ann (first, second) <nil>
}

// A start can carry a message. The run that it creates receives the message, or the active run if
// there is one.
func ExampleWithMessage() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	for _, text := range []string{"first", "second"} {
		run, err := flows.Review.Start(ctx, client, "spec", workflow.WithID("review-spec"), workflow.WithMessage(flows.Comment, text))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.Created())
	}
	run := flows.Review.GetByID(client, "review-spec")
	awaitComments(ctx, run, 2)
	if err := flows.Verdict.Send(ctx, run, flows.Decision{By: "ann", OK: true}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// true
	// false
	// spec: true by ann (first, second) <nil>
}

func awaitComments(ctx context.Context, run *workflow.Run[string], n int) {
	for _, err := range run.Events(ctx, workflow.Types(event.MessageReceived)) {
		if n--; err != nil || n == 0 {
			return
		}
	}
}

// This example advances the clock of the store by a month.
func ExampleSleep() {
	clock := storetest.NewClock()
	st := memstore.NewWith(memstore.Config{Clock: clock})
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	// The lease of the worker must not expire when the clock advances by a month.
	w := worker.New(client, worker.Config{Heartbeat: 10_000 * time.Hour, ClaimExpiry: 20_000 * time.Hour})
	flows.Register(w, &flows.Fleet{})
	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error)
	go func() { worked <- w.Run(ctx) }()

	begin := clock.Now()
	ended := make(chan error)
	go func() {
		_, err := flows.Coupon.Execute(ctx, client, "ada") // sleeps for 30 days
		ended <- err
	}()
	for waiting := true; waiting; {
		select {
		case err := <-ended:
			fmt.Println(err, clock.Now().Sub(begin) >= 30*24*time.Hour)
			waiting = false
		case <-time.After(time.Millisecond):
			clock.Advance(24 * time.Hour)
		}
	}
	stop()
	fmt.Println(errors.Join(<-worked, client.Close(), st.Close()))
	// Output:
	// <nil> true
	// <nil>
}

// Events follows a run until it has ended.
func ExampleHandle_Events() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	run, err := flows.Cheapest.Start(ctx, client, []string{"dhl"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range run.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %v %q\n", e.Seq, e.Type, e.Key)
	}
	// Output:
	// 1 run_created ""
	// 2 run_started ""
	// 3 step_created "cheapest/map#1.1/flows.quote#1"
	// 4 step_started ""
	// 5 step_completed ""
	// 6 run_completed ""
}

// Cancel ends the context of the run's code. The code cleans up and returns.
func ExampleHandle_Cancel() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	run, err := flows.Rent.Start(ctx, client, "m1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := run.Cancel(ctx, "not needed any more"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Result(ctx)
	if ended, ok := errors.AsType[*workflow.RunError](err); ok {
		fmt.Println(ended.Status, errors.Is(err, workflow.ErrCanceled))
	}
	// Output: cancelled true
}

// List returns the runs that match a filter.
func ExampleClient_List() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	for _, doc := range []string{"spec", "plan"} {
		if _, err := flows.Review.Start(ctx, client, doc, workflow.WithTags(map[string]string{"doc": doc})); err != nil {
			fmt.Println(err)
			return
		}
	}
	filter := workflow.Filter{Workflow: flows.Review.Name(), Tags: map[string]string{"doc": "plan"}}
	for run, err := range client.List(ctx, filter) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.Workflow, run.Tags["doc"])
	}
	// Output: flows.review plan
}

// A schedule starts a run for each tick and for each trigger.
func ExampleDefinition_Schedule() {
	client, stop := serve()
	defer stop()
	ctx := context.Background()

	yearly := schedule.Spec{When: "0 0 1 1 * Europe/Zurich"}
	if err := flows.Rent.Schedule(ctx, client, "new-year", yearly, "m1"); err != nil {
		fmt.Println(err)
		return
	}
	run, err := ops.New(client).Schedules().Trigger(ctx, "new-year")
	if err != nil {
		fmt.Println(err)
		return
	}
	for info, err := range ops.New(client).Schedules().List(ctx) {
		fmt.Println(info.Name, info.When, err)
	}
	fmt.Println(run != "", ops.New(client).Schedules().Delete(ctx, "new-year"))
	// Output:
	// new-year 0 0 1 1 * Europe/Zurich <nil>
	// true <nil>
}

// ExampleRetryPolicy prints the delays of the default policy.
func ExampleRetryPolicy() {
	var p workflow.RetryPolicy
	for n := 1; n < p.MaxAttempts(); n++ {
		fmt.Println("after attempt", n, "wait", p.Delay(n, 0))
	}
	// Output:
	// after attempt 1 wait 1s
	// after attempt 2 wait 2s
	// after attempt 3 wait 4s
}
