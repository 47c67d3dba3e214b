// Package rolling replaces the workers of a release by workers of the next release, while runs are
// in progress. Package orders contains the changed workflow. It has a new step, which only runs
// that have not passed this point execute. The old release is in testdata, because a module can
// contain each stored name only once.
//
//	go run ./examples/recipes rolling
//
// Order 1 begins with the old release, and order 2 with the new one while both are running. The
// recipe prints:
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

// Work runs a worker of the given release until ctx ends. In production it is the main function of
// the release, and SIGTERM ends ctx. Other workers then continue its runs.
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
