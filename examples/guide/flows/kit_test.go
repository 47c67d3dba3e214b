package flows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestReview_RemindsEachDay(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil) // The steps of Fleet are not called, so it is nil.
	reminders := workflowtest.Stub(env, flows.Steps.Remind, func(context.Context, string) error { return nil })
	run, err := flows.Review.Start(t.Context(), env.Client(), "plan")
	if err != nil {
		t.Fatal(err)
	}
	env.At(50*time.Hour, func(ctx context.Context) {
		if err := flows.Verdict.Send(ctx, run, flows.Decision{By: "ann", OK: true}); err != nil {
			t.Error(err)
		}
	})
	if got, err := run.Result(t.Context()); got != "plan: true by ann ()" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if n := reminders.Count(); n != 2 {
		t.Errorf("%d reminders in 50 hours, want 2", n)
	}
}

func TestQuote_IsTriedAgain(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	asked := workflowtest.Stub(env, flows.Steps.Quote, func(_ context.Context, carrier string) (flows.Offer, error) {
		return flows.Offer{Carrier: carrier, Cents: 5}, nil
	}).FailFirst(2, errors.New("busy")).Delay(time.Second)
	best, err := flows.Cheapest.Execute(t.Context(), env.Client(), []string{"ups"})
	if err != nil || best.Cents != 5 {
		t.Errorf("got %+v, %v", best, err)
	}
	var args struct{ Carrier string }
	asked.Args(2, &args)
	if asked.Count() != 3 || args.Carrier != "ups" {
		t.Errorf("%d calls, the last with %+v", asked.Count(), args)
	}
}

func TestShipment_AsksForEveryPrice(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	workflowtest.StubChild[string, string](env, flows.Review, nil)
	prices := workflowtest.StubChild(env, flows.Price, func(_ context.Context, carrier string) (flows.Offer, error) {
		return flows.Offer{Carrier: carrier, Cents: 7}, nil
	}).Delay(72 * time.Hour)
	offers, err := flows.Shipment.Execute(t.Context(), env.Client(), []string{"ups", "dhl"})
	if want := []flows.Offer{{Carrier: "ups", Cents: 7}, {Carrier: "dhl", Cents: 7}}; err != nil || !slices.Equal(offers, want) {
		t.Errorf("got %+v, %v, want %+v", offers, err, want)
	}
	if n := prices.Count(); n != 2 {
		t.Errorf("%d prices, want 2", n)
	}
}

// setupReview prepares an Env for a review with two comments and a verdict.
func setupReview(env *workflowtest.Env) {
	flows.Register(env, nil)
	send := func(d time.Duration, what func(ctx context.Context) error) {
		env.At(d, func(ctx context.Context) {
			if err := what(ctx); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		})
	}
	send(time.Hour, func(ctx context.Context) error { return flows.Comment.Send(ctx, env.Run(), "short") })
	send(30*time.Hour, func(ctx context.Context) error { return flows.Comment.Send(ctx, env.Run(), "good") })
	send(50*time.Hour, func(ctx context.Context) error {
		return flows.Verdict.Send(ctx, env.Run(), flows.Decision{By: "ann", OK: true})
	})
}

func TestReview_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, flows.Review, "plan", setupReview)
}

func TestReview_TakesMessagesInAnyOrder(t *testing.T) {
	// A comment that arrives after the verdict is dropped. This is intended.
	workflowtest.Interleave(t, flows.Review, "plan", setupReview, 100, workflowtest.AllowUnread())
}

func TestRent_GivesTheMachineBackWhateverHappens(t *testing.T) {
	var fleet *flows.Fleet
	setup := func(env *workflowtest.Env) {
		fleet = &flows.Fleet{}
		flows.Register(env, fleet)
	}
	free := workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, run workflowtest.Outcome) {
		if fleet.Taken("m1") {
			t.Errorf("the run is %s, and the machine is still taken", run.Status)
		}
	})
	workflowtest.CrashEverywhere(t, flows.Rent, "m1", setup, free, workflowtest.Pairs(20))
	workflowtest.Interleave(t, flows.Rent, "m1", setup, 40, free)
}

func TestFlows_SurviveCrashesAndAnyOrder(t *testing.T) {
	setup := func(env *workflowtest.Env) { flows.Register(env, nil) }
	carriers := []string{"ups", "dhl", "fedex", "gls", "dpd"}
	workflowtest.CrashEverywhere(t, flows.Coupon, "ada", setup)
	workflowtest.CrashEverywhere(t, flows.Cheapest, carriers, setup)
	workflowtest.CrashEverywhere(t, flows.Fastest, flows.FastestInput{A: "ups", B: "dhl"}, setup)
	workflowtest.CrashEverywhere(t, flows.Sign, "plan", setup)
	workflowtest.CrashEverywhere(t, flows.Reply, "that", setup)
	workflowtest.Interleave(t, flows.Reply, "that", setup, 20)
	workflowtest.Interleave(t, flows.Cheapest, carriers, setup, 50)
	if r := workflowtest.Interleave(t, flows.Fastest, flows.FastestInput{A: "ups", B: "dhl"}, setup, 50, workflowtest.WithoutCancels()); r.Outcomes != 2 {
		t.Errorf("%d outcomes, want that each carrier was the fastest once", r.Outcomes)
	}
	workflowtest.Interleave(t, flows.Sign, "plan", func(env *workflowtest.Env) {
		setup(env)
		env.At(time.Hour, func(ctx context.Context) {
			err := flows.Verdict.Send(ctx, env.Run(), flows.Decision{By: "ann"})
			if err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		})
	}, 50)
}

func TestCoupon_WritesTheLogThatItAlwaysDid(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	run, err := flows.Coupon.Start(t.Context(), env.Client(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	var types []event.Type
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	if len(types) != 6 {
		t.Errorf("got %v, want 6 events", types)
	}
}

func TestReview_FitsRecordedRuns(t *testing.T) {
	workflowtest.Replay(t, setupReview, "testdata/review-*.json")
}
