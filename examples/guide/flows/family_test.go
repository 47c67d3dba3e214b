package flows_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestShipment_AsksForEachParcelInAChild(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	ctx := limited(t)
	for range 2 { // The second shipment finds the active monitor.
		got, err := flows.Shipment.Execute(ctx, client, []string{"ups", "dhl"})
		if err != nil {
			t.Fatal(err)
		}
		want := []flows.Offer{{Carrier: "ups", Cents: 300}, {Carrier: "dhl", Cents: 300}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	watch, err := flows.Review.GetByID(client, "customs").Info(ctx)
	if err != nil || watch.Status.Terminal() {
		t.Errorf("the abandoned child: %+v, %v", watch, err)
	}
	tree, err := ops.New(client).Tree(ctx, watch.Parent)
	if err != nil || len(tree.Children) != 3 {
		t.Errorf("the tree has %d children, %v; want 3", len(tree.Children), err)
	}
}

func TestForward_PassesPaymentsOn(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	ctx := limited(t)
	to, err := flows.AccountLoop.Start(ctx, client, flows.Account{})
	if err != nil {
		t.Fatal(err)
	}
	from, err := flows.Forward.Start(ctx, client, string(to.ID()))
	if err != nil {
		t.Fatal(err)
	}
	if err := flows.Payment.Send(ctx, from, 250, workflow.IdempotencyKey("invoice-7")); err != nil {
		t.Fatal(err)
	}
	if got := await(t, to, event.MessageReceived); string(got.Payload) != "250" {
		t.Errorf("got %s, want 250", got.Payload)
	}
	if err := to.Cancel(ctx, "closed"); err != nil {
		t.Fatal(err)
	}
}

func TestDispatch_EndsWhenTheDeliveryCanBeFollowed(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	got, err := flows.Dispatch.Execute(limited(t), client, "7")
	if err != nil {
		t.Fatal(err)
	}
	got.Status = "" // The delivery may wait or not, so the status is random.
	if diff := cmp.Diff(flows.Followed{Number: "T-7", Stops: []string{"depot"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
