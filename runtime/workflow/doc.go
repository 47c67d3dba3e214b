// Package workflow is the API of users: the operations of workflow code, and
// the client that starts and follows runs.
//
// The first parameter says which kind of code it is. A function that takes a [Context] is
// for workflow code; one that takes a context.Context is for everything outside.
// Context is not a context.Context, so I/O from workflow code, or a durable
// operation from a step, does not compile.
//
// Workflow code is ordinary Go that must do the same each time it is executed
// against the same log: ask [Now] for the time, [Rand] for random numbers, do
// I/O in steps, and start branches with [Go] instead of the go statement. The
// branches of a run take turns, in an order that the log decides, so variables
// that they share need no lock.
//
// Reading order: [Context] and [Sleep], then [Go] and [Future], then [Topic],
// then [Definition] and [Run] for starting runs, then [StepError] and
// [RunError] for what can go wrong.
package workflow
