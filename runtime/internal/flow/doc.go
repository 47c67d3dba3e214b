// Package flow contains the insides of packages workflow, step and shim, which packages ops, worker
// and workflowtest share and which are not part of the public API.
//
// Types such as workflow.Context, workflow.Registry and shim.Step are defined types over types of
// this package. Packages of the runtime convert between the two, for example flow.Context(ctx).
// Users cannot, because they cannot import this package, and all fields are unexported.
//
//   - context.go: the context of workflow code
//   - call.go, payload.go, decode.go, steperror.go: the call of a step, and the stored form of values
//   - definition.go, registry.go, standin.go, programs.go: workflows, their code and their programs
//   - step.go, mismatch.go, bounds.go: declarations that workflow, shim and worker share
//   - hook.go: hooks that workflow code and steps open
//   - client.go, ops.go: the part of a client that workers and package ops use
//   - kit.go: how test kits change a worker
package flow
