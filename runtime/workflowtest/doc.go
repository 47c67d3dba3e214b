// Package workflowtest tests workflows: months of waiting in milliseconds of virtual
// time, and crashes at every point in one line.
//
// An [Env] is isolated: it has a store in memory, a worker, a client, and
// virtual time, which stands still while anything works and jumps to what is due
// next when everything waits. It takes the place of the worker:
//
//	env := workflowtest.New(t)
//	orders.Register(env, &orders.Shop{})
//	charges := workflowtest.Stub(env, orders.Steps.Charge, func(ctx context.Context, customer string, cents int64) (orders.Receipt, error) { … })
//	env.At(24*time.Hour, func(ctx context.Context) { … send … })
//	invoice, err := orders.Fulfil.Execute(t.Context(), env.Client(), order)
//
// A run that waits for something that can never happen fails the test at once, and the
// failure says for what it waits and where.
//
// Then let the kit find defects that tests of single cases do not find.
// [CrashEverywhere] kills the worker at each place at which it can die, and
// [Interleave] tries the orders in which steps, timers, messages and cancels
// arrive. [Record] keeps the log of a run in a file, and [Replay] runs today's
// code against it, so that a change that would block runs in flight fails a
// test.
//
// # How it works
//
// The worker is the real one, and so are the log and the store. The kit stands
// in three places around it. Each incarnation of the worker has its own handle of the
// store (workerStore), which counts its requests, and is cut when the incarnation ends:
// so the points of a crash are the requests, whatever operations they are for. Steps pass a gate (execution) before their code
// begins and before the worker learns its outcome. And a call that waits for
// a run drives the scheduler, which lets everything come to rest and then makes
// one move: a step begins or ends, a planned function is called, or time
// passes. So one thing happens after the other, in an order that is the same
// each time, or is chosen by a seed.
//
// # Reading order
//
// env.go and options.go have what a test sees; scheduler.go, settle.go and
// clock.go virtual time; incarnation.go, workerstore.go, clientstore.go and attempt.go what is
// around the worker. crash.go, crashpoint.go, trial.go and compare.go are
// CrashEverywhere, interleave.go is Interleave, history.go is Record and Replay.
package workflowtest
