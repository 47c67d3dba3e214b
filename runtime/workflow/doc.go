// Package workflow is the API for workflow code and for programs that start and follow runs.
//
// The first parameter of a function shows which kind of code may call it. A function that takes a
// [Context] is for workflow code. A function that takes a context.Context is for all other code.
// Context is not a context.Context. Therefore I/O in workflow code, or a durable operation in a
// step, does not compile.
//
// Workflow code is ordinary Go that must behave the same each time it is executed with the same
// log. Read the time with [Now] and random numbers with [Rand], do I/O in steps, and start branches
// with [Go] instead of the go statement. Only one branch of a run executes at a time, in an order
// that the log determines. Therefore variables that branches share need no lock.
//
// Reading order: [Context] and [Sleep], then [Go] and [Future], then [Topic], then [Definition] and
// [Run] for starting runs, then [StepError] and [RunError] for failures.
package workflow
