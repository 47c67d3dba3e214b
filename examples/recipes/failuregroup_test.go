package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/examples/recipes/failuregroup"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The test proves that a retry of a failure group completes its runs without executing completed
// steps again. Runs fail for two reasons, and one of them is fixed. The runs of the other group
// remain failed.
func TestFailuregroup_ARetryCompletesTheRunsOfTheFixedReasonOnly(t *testing.T) {
	ctx := limited(t)
	st := memstore.New()
	client := workflow.NewClient(st, quiet)
	office := &failuregroup.Office{Rates: map[string]int64{"DE": 19}}
	stop := failuregroup.Work(ctx, client, office)
	var swiss []workflow.RunID
	for i, order := range []failuregroup.Order{{Country: "CH", Cents: 1000}, {Country: "DE", Cents: 1000}, {Country: "CH"}, {Country: "CH", Cents: 1000}} {
		order.ID = fmt.Sprint("order-", i)
		run, err := failuregroup.Invoice.Start(ctx, client, order)
		if err != nil {
			t.Fatal(err)
		}
		_, err = run.Result(ctx)
		if errors.Is(err, failuregroup.ErrNoRate) {
			swiss = append(swiss, run.ID())
		} else if (err == nil) != (order.Country == "DE") {
			t.Fatalf("%+v: %v", order, err)
		}
	}
	if len(swiss) != 2 {
		t.Fatalf("%d runs have no rate, want 2", len(swiss))
	}
	service := admin.New(client).As(admin.Principal{Name: "ada", Role: admin.RoleOperator})
	info, err := service.Run(ctx, string(swiss[0]))
	if err != nil {
		t.Fatal(err)
	}

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	office.Rates["CH"] = 8
	stop = failuregroup.Work(ctx, client, office)
	bulk, err := failuregroup.RetryGroup(ctx, service, info.Group, "fixed")
	if err != nil || bulk.Done != 2 || bulk.Failed+bulk.Refused != 0 {
		t.Fatalf("the retry has done %d and not done %v: %v", bulk.Done, bulk.Failures, err)
	}
	for _, id := range swiss {
		info, err := client.Run(id).Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if total, err := failuregroup.Invoice.Get(client, info.RetriedAs).Result(ctx); total != 1080 || err != nil {
			t.Errorf("the total is %d: %v", total, err)
		}
	}
	for i := range 4 {
		if n := office.Rendered(fmt.Sprint("order-", i)); n != 1 {
			t.Errorf("order %d was rendered %d times", i, n)
		}
	}
	if err := errors.Join(stop(), client.Close(), st.Close()); err != nil {
		t.Error(err)
	}
}
