// Package rolling replaces the workers of a release by those of the next one, while runs are under way.
// The change of the workflow is in orders: a new step, for runs that have not passed its place. The old
// release is in testdata, because a module has each stored name once.
//
//	go run ./examples/recipes rolling
//
// Order 1 begins with the old release, order 2 with the new one beside it. It prints:
//
//	order 1 is shipped
//	insured order 2 is shipped
//
// ci.yml runs flowgen breaking, which refuses the same change without workflow.Version.
package rolling

import (
	"context"
	"fmt"

	after "github.com/flowgen/flowgen/examples/recipes/rolling/orders"
	before "github.com/flowgen/flowgen/examples/recipes/rolling/testdata/release1"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Work runs a worker of a release until ctx ends. In production it is the main function of a release.
// The end of ctx, by SIGTERM, hands its runs over to other workers.
func Work(ctx context.Context, client *workflow.Client, release int) error {
	w := worker.New(client, worker.Config{})
	if release == 1 {
		before.Register(w)
	} else {
		after.Register(w)
	}
	return w.Run(ctx)
}

// AwaitPacking returns when a run waits for its order to be packed.
func AwaitPacking(ctx context.Context, run *workflow.Run[string]) error {
	for e, err := range run.Events(ctx, workflow.Types(event.WaitCreated)) {
		if err != nil || e.Wait == event.WaitMessage {
			return err
		}
	}
	return fmt.Errorf("run %s has ended", run.ID())
}
