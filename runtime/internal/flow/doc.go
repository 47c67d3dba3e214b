// Package flow contains the insides of packages workflow, step and shim, which packages ops, worker
// and workflowtest share and which are not part of the public API.
//
// The other packages need functions of package workflow that users cannot call. Package workflow
// assigns these functions to the variables of this package during its initialization. So the
// variables are set before any package that imports workflow runs, and do not change afterwards. If
// a parameter has type any, the comment of the function names the dynamic type. A value of another
// type is a defect of the runtime, and the function panics.
//
//   - workflow.go: functions of package workflow
//   - ops.go: functions of package workflow for package ops
//   - step.go: the description of a step for workflow and worker
//   - mismatch.go: the difference between a log and the code
//   - hooks.go: functions with which test kits change a worker
package flow
