package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pin returns the build to which a run that the client creates is pinned, or "" if it is not pinned.
// declared is set if the workflow of the run is pinned.
func (c *client) pin(ctx context.Context, run RunID, spec *event.Spec, declared bool) (string, error) {
	if !c.pins.Pins(spec.Workflow, declared) || c.thisBuild() == "" {
		return "", nil
	}
	if _, err := c.pins.Look(ctx); err != nil {
		return "", err
	}
	return c.pins.Build(run, store.Route{Queue: spec.Queue, Workflow: spec.Workflow}), nil
}

// repin returns the build to which a rerun with the given Spec is pinned. If the rerun copies
// results of the old run, build is the build that has executed the old run. The rerun is pinned to
// that build while it takes new runs, because the code of another build may not match these results.
// A rerun that copies nothing is distributed like a start.
func (c *client) repin(ctx context.Context, run RunID, spec *event.Spec, build string) (string, error) {
	if !c.pins.Pins(spec.Workflow, spec.Pin != "") || c.thisBuild() == "" {
		return "", nil
	}
	v, err := c.pins.Look(ctx)
	if err != nil {
		return "", err
	}
	route := store.Route{Queue: spec.Queue, Workflow: spec.Workflow}
	if build != "" && v.Takes(build, route) {
		return build, nil
	}
	return c.pins.Build(run, route), nil
}
