// Package engine contains the declarations that packages workflow, ops, step, shim,
// worker and workflowtest share and that users cannot reach.
//
// The other packages import package workflow, and need more of it than users may call. Package
// workflow provides that as functions, which it stores in the variables of this package when it is
// initialized: they are set before any package that imports workflow runs, and do not change after
// that. If such a function takes an any, its comment names the type; a value of another type is a
// defect of the runtime, and the function panics.
//
//   - workflow.go: what package workflow provides
//   - ops.go: what it provides to package ops
//   - step.go: a step as workflow and worker see it
//   - hooks.go: what test kits change about a worker
package engine
