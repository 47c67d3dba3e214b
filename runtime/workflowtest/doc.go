// Package workflowtest tests workflows: months of waiting pass in milliseconds with virtual time,
// and one line of code tests crashes at every point.
//
// An [Env] is isolated: it has an in-memory store, a worker, a client, and virtual time, which does
// not advance while anything works, and jumps to the next due time when everything waits. Pass it
// to Register in place of the worker:
//
//	env := workflowtest.New(t)
//	orders.Register(env, &orders.Shop{})
//	charges := workflowtest.Stub(env, orders.Steps.Charge, func(ctx context.Context, customer string, cents int64) (orders.Receipt, error) { … })
//	env.At(24*time.Hour, func(ctx context.Context) { … send … })
//	invoice, err := orders.Fulfil.Execute(t.Context(), env.Client(), order)
//
// If a run waits for something that can never happen, the test fails at once, with a description of
// what the run waits for and where.
//
// The package also finds defects that tests of single cases miss. [CrashEverywhere] kills the
// worker at each point at which it can die, and [Interleave] tries different orders in which steps,
// timers, messages and cancels arrive. [Record] saves the log of a run to a file, and [Replay] runs
// the current code against it, so that a change that would block open runs fails a test.
//
// # How it works
//
// The worker, the log and the store are the real ones. The package intercepts them at three places.
// Each incarnation of the worker has its own handle of the store (workerStore), which counts its
// requests and is disconnected when the incarnation ends: so the crash points are the requests,
// regardless of the operations that they serve. Steps wait for the scheduler (execution) before
// their code begins and before the worker is notified of their outcome. A call that waits for a run
// drives the scheduler, which waits until everything is idle and then makes one move: a step begins
// or ends, a planned function is called, or time advances. So events happen one after the other, in
// an order that is the same each time, or is determined by a seed.
//
// # Reading order
//
// env.go and options.go contain the API of tests; scheduler.go, settle.go and clock.go virtual
// time; incarnation.go, workerstore.go, clientstore.go and attempt.go the wrappers of the worker.
// crash.go, crashpoint.go, trial.go and compare.go implement CrashEverywhere, interleave.go
// Interleave, history.go Record and Replay.
package workflowtest
