// Package step is the API of step code: the number of the attempt, its idempotency
// key, heartbeats, errors that change the retry policy, and what the steps of a state machine
// return ([Next]).
//
// A step is a plain Go function with a context.Context; its dependencies live in
// its receiver. The functions of this package that take a context panic, with
// the fix, outside of a step; only [Current] may be asked anywhere.
package step
