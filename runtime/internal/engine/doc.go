// Package engine holds the declarations that packages workflow, step, shim, worker and
// workflowtest share and that users cannot reach.
//
// Package workflow is below the others, and they need more of it than users may call.
// It offers that as functions, which it puts into the variables of this package when it
// is initialized: they are set before anything that imports workflow runs, and are not
// changed after that. Where such a function takes an any, its comment names the type; a
// value of another type is a defect of the runtime, and the function panics.
//
//   - workflow.go: what package workflow offers
//   - step.go: a step as workflow and worker see it
//   - hooks.go: what test kits change about a worker
package engine
