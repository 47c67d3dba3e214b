package near_misses

import "context"

//flowgen:step
func a(ctx context.Context) error { return nil }

//flow-step
func b(ctx context.Context) error { return nil }

//flow.step retries=5
func c(ctx context.Context) error { return nil }

//flowstep
func d(ctx context.Context) error { return nil }

// @flow:step
func e(ctx context.Context) error { return nil }

// +flow:step
func f(ctx context.Context) error { return nil }

//go:flow:step
func g(ctx context.Context) error { return nil }

//flow_workflow timeout=5s
func h(ctx context.Context) error { return nil }

// flowsteps are no directive, and neither is
// flow.Step, nor flow error handling, nor a workflow step.
//flows
//flow.error of the old kind
func i(ctx context.Context) error { return nil }
