package flows

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// StartBriefly starts a review whose run is deleted one day after its end.
func StartBriefly(ctx context.Context, client *workflow.Client, doc string) (*workflow.Run[string], error) {
	return Review.Start(ctx, client, doc, workflow.WithRetention(24*time.Hour))
}

// Forget deletes the finished reviews of a document and returns their number.
func Forget(ctx context.Context, client *workflow.Client, doc string) (int, error) {
	return ops.New(client).DeleteMany(ctx, workflow.Filter{Workflow: Review.Name(), Tags: map[string]string{"doc": doc}})
}
