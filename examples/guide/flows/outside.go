package flows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// StartOnce starts the review of a document unless one is active.
func StartOnce(ctx context.Context, client *workflow.Client, doc string) (*workflow.Run[string], error) {
	run, err := Review.Start(ctx, client, doc,
		workflow.WithID("review-"+doc),
		workflow.WithTags(map[string]string{"doc": doc}),
		workflow.WithRunTimeout(30*24*time.Hour))
	if err != nil {
		return nil, err
	}
	if !run.Created() {
		fmt.Println(doc, "is being reviewed already")
	}
	return run, nil
}

// StartEver starts the review of a document unless the document has ever had a review.
func StartEver(ctx context.Context, client *workflow.Client, doc string) (workflow.RunID, error) {
	run, err := Review.Start(ctx, client, doc, workflow.WithID("review-"+doc),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
	if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		return finished.Run, nil
	}
	if err != nil {
		return "", err
	}
	return run.ID(), nil
}

// StartFor starts the review of a document for a user of a tenant.
func StartFor(ctx context.Context, client *workflow.Client, user, tenant, doc string) (*workflow.Run[string], error) {
	ctx = workflow.OnBehalfOf(ctx, user)
	ctx = workflow.WithAttribute(ctx, "tenant", tenant)
	return Review.Start(ctx, client, doc)
}

// Approve sends a verdict to the active review of the document.
func Approve(ctx context.Context, client *workflow.Client, doc, who, click string) error {
	run := Review.GetByID(client, "review-"+doc)
	return Verdict.Send(ctx, run, Decision{By: who, OK: true}, workflow.IdempotencyKey(click))
}

// Remark sends a comment to the review of a document. If there is no active review, it starts one.
func Remark(ctx context.Context, client *workflow.Client, doc, text, click string) (*workflow.Run[string], error) {
	return Review.Start(ctx, client, doc, workflow.WithID("review-"+doc),
		workflow.WithMessage(Comment, text, workflow.IdempotencyKey(click)))
}

// Follow prints the events of a run, beginning with number from, until the run has ended.
func Follow(ctx context.Context, client *workflow.Client, id workflow.RunID, from uint64, out io.Writer) error {
	for e, err := range client.Run(id).Events(ctx, workflow.From(from), workflow.Types(event.StepCompleted, event.StepFailed)) {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, e.Seq, e.Type, e.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// Blocked returns the runs that are incompatible with the code of all workers, with the reasons.
func Blocked(ctx context.Context, client *workflow.Client) (map[workflow.RunID]string, error) {
	found := map[workflow.RunID]string{}
	for run, err := range client.List(ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true}) {
		if err != nil {
			return nil, err
		}
		info, err := client.Run(run.ID).Info(ctx) // List does not return the reason, so Info is needed.
		if err != nil {
			return nil, err
		}
		found[run.ID] = info.Blocked
	}
	return found, nil
}
