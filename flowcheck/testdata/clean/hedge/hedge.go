// Package hedge asks a second server if the first one is slow.
package hedge

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step timeout=30s key=server
func fetch(ctx context.Context, server, path string) (string, error) { return server + path, ctx.Err() }

// get starts the second request after a second.
//
//flow:workflow
func get(ctx workflow.Context, path string) (string, error) {
	racing, stop := workflow.WithCancel(ctx)
	defer stop()
	ask := func(server string) *workflow.Future[string] {
		return workflow.Go(racing, func(ctx workflow.Context) (string, error) { return Fetch(ctx, server, path) })
	}
	first, slow := ask("a"), workflow.After(time.Second)
	won, err := workflow.Select(ctx, first, slow)
	if err != nil {
		return "", err
	}
	if won == first {
		return first.Get(ctx)
	}
	return workflow.First(ctx, first, ask("b"))
}
