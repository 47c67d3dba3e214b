// Package workflowtest tests workflows. With virtual time, months of waiting pass in milliseconds.
// One line of code tests crashes at every point.
//
// An [Env] is isolated: it has an in-memory store, a worker, a client, and virtual time. Virtual
// time does not advance while anything works. It jumps to the next due time when everything waits.
// Pass the Env to Register in place of the worker:
//
//	env := workflowtest.New(t)
//	orders.Register(env, &orders.Shop{})
//	charges := workflowtest.Stub(env, orders.Steps.Charge, func(ctx context.Context, customer string, cents int64) (orders.Receipt, error) { … })
//	env.At(24*time.Hour, func(ctx context.Context) { … send … })
//	invoice, err := orders.Fulfil.Execute(t.Context(), env.Client(), order)
//
// If a run waits for something that can never happen, the test fails at once. The failure describes
// what the run waits for, and where.
//
// The package also finds defects that tests of single cases miss. [CrashEverywhere] kills the
// worker at each point at which it can crash. [Interleave] tries different orders in which steps,
// timers, messages and cancels arrive. [Record] saves the log of a run to a file, and [Replay] runs
// the current code against that log. If a change of the code would block open runs, Replay fails
// the test.
//
// # How it works
//
// The worker, the log and the store are the real ones. The package intercepts them at three places.
// First, each incarnation of the worker has its own handle of the store (workerStore). The handle
// counts requests, which are the crash points, and is disconnected when the incarnation ends.
// Second, steps wait for the scheduler (execution) before their code begins and before the worker
// is notified of their outcome. Third, a call that waits for a run drives the scheduler. The
// scheduler waits until everything is idle and then makes one move: a step begins or ends, a
// planned function is called, or time advances. Therefore events happen one after the other. Their
// order is the same each time, or is determined by a seed.
//
// # Reading order
//
// env.go and options.go contain the API for tests. scheduler.go, settle.go and clock.go implement
// virtual time. incarnation.go, workerstore.go, clientstore.go and attempt.go wrap the worker.
// crash.go, crashpoint.go, trial.go and compare.go implement CrashEverywhere, interleave.go
// implements Interleave, and history.go implements Record and Replay.
package workflowtest
