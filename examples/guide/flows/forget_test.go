package flows_test

import (
	"errors"
	"testing"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestForget_DeletesFinishedReviewsOfTheDocument(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	ctx := limited(t)
	old, err := flows.StartOnce(ctx, client, "spec")
	if err != nil {
		t.Fatal(err)
	}
	other, err := flows.StartOnce(ctx, client, "manual")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{"spec", "manual"} {
		if err := flows.Approve(ctx, client, doc, "ann", "click"); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []*workflow.Run[string]{old, other} {
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	running, err := flows.StartOnce(ctx, client, "spec")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := flows.Forget(ctx, client, "spec"); err != nil || n != 1 {
		t.Errorf("got %d, %v, want 1", n, err)
	}
	if _, err := old.Info(ctx); !errors.Is(err, workflow.ErrRunNotFound) {
		t.Errorf("the finished review: got %v, want ErrRunNotFound", err)
	}
	for name, run := range map[string]*workflow.Run[string]{"of another document": other, "that is under way": running} {
		if _, err := run.Info(ctx); err != nil {
			t.Errorf("the review %s: %v", name, err)
		}
	}
}

func TestStartBriefly_Starts(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	run, err := flows.StartBriefly(limited(t), client, "spec")
	if err != nil || !run.Created() {
		t.Errorf("got %v, %v", run, err)
	}
}
