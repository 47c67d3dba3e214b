// Package step is the API for step code: the number of the attempt, its idempotency key,
// heartbeats, errors that change the retry policy, and the results of steps of a state machine
// ([Next]).
//
// A step is a plain Go function with a context.Context; its dependencies are in its receiver. The
// functions of this package that take a context panic, with the fix, if they are called outside of
// a step; only [Current] may be called anywhere.
package step
