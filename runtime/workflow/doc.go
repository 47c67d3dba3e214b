// Package workflow is the API for users: the operations of workflow code, and the client that
// starts and follows runs.
//
// The first parameter of a function shows which kind of code may call it. A function that takes a
// [Context] is for workflow code; a function that takes a context.Context is for all other code.
// Context is not a context.Context, so I/O in workflow code, or a durable operation in a step, does
// not compile.
//
// Workflow code is ordinary Go that must do the same each time it is executed against the same log:
// read the time with [Now] and random numbers with [Rand], do I/O in steps, and start branches with
// [Go] instead of the go statement. Only one branch of a run executes at a time, in an order
// determined by the log, so variables shared by branches need no lock.
//
// Reading order: [Context] and [Sleep], then [Go] and [Future], then [Topic], then [Definition] and
// [Run] for starting runs, then [StepError] and [RunError] for what can go wrong.
package workflow
