package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// drive executes each order at its time. It returns when all orders are executed or ctx ends.
func (x *experiment) drive(ctx context.Context) {
	var work sync.WaitGroup
	for _, o := range x.orders {
		if o.Replaces {
			continue // The order is executed after the run that it replaces has started.
		}
		work.Go(func() {
			if harm.Pause(ctx, time.Until(x.Began.Add(o.at))) {
				x.carryOut(ctx, o)
			}
		})
	}
	work.Wait()
}

func (x *experiment) carryOut(ctx context.Context, o *order) {
	run, ok := x.start(ctx, o)
	if !ok {
		return
	}
	var work sync.WaitGroup
	if o.asked && o.Fate == check.Completes {
		work.Go(func() { x.ask(ctx, o, run) })
	}
	if o.Workflow == flows.Mail.Name() {
		for sender := range o.Input.Senders {
			work.Go(func() { x.send(ctx, o, run, sender) })
		}
	}
	if o.cancel > 0 {
		work.Go(func() { x.cancel(ctx, o, run) })
	}
	if o.next != nil && harm.Pause(ctx, harm.Random(x.Chance(1000+uint64(o.Input.ID)), x.duration()/8)) {
		x.carryOut(ctx, o.next)
	}
	work.Wait()
}

// start starts the run of an order and returns its ID. It may start the run several times
// concurrently. All starts must return the same run.
func (x *experiment) start(ctx context.Context, o *order) (event.RunID, bool) {
	runs := make([]event.RunID, o.starters)
	var work sync.WaitGroup
	for i := range runs {
		policy := workflow.IDPolicy{Finished: workflow.RejectFinished}
		if i == 1 {
			policy.Active = workflow.FailActive
		}
		if o.Replaces {
			policy = workflow.IDPolicy{Active: workflow.CancelActive}
		}
		work.Go(func() {
			harm.Insist(ctx, func(ctx context.Context) (err error) {
				runs[i], err = starters[o.Workflow](ctx, x.Client, o.Input,
					workflow.WithID(o.WorkflowID), workflow.WithIDPolicy(policy), workflow.WithDelay(o.delay),
					workflow.WithPriority(o.priority), workflow.WithTags(map[string]string{"job": fmt.Sprint(o.Input.ID)}))
				return err
			})
		})
	}
	work.Wait()
	for _, run := range runs {
		if run == "" {
			return "", false // The context has ended.
		}
		x.mu.Lock()
		if _, ended := x.ended[run]; !ended {
			x.started[run] = true
		}
		x.mu.Unlock()
		if run != runs[0] && !o.Replaces {
			x.Notef(check.Wrong, run, "workflow id %q was started several times at once, and gave run %s, too", o.WorkflowID, runs[0])
		}
	}
	return runs[len(runs)-1], true
}

type starter func(ctx context.Context, c *workflow.Client, job flows.Job, opts ...workflow.StartOption) (event.RunID, error)

var starters = map[string]starter{
	flows.Chain.Name():   starts(flows.Chain),
	flows.Fan.Name():     starts(flows.Fan),
	flows.Mail.Name():    starts(flows.Mail),
	flows.Endless.Name(): starts(flows.Endless),
	flows.Long.Name():    starts(flows.Long),
	flows.Doomed.Name():  starts(flows.Doomed),
	flows.Crowd.Name():   starts(flows.Crowd),
	flows.Holder.Name():  starts(flows.Holder),
	flows.Hoarder.Name(): starts(flows.Hoarder),
}

// starts returns a function that starts a workflow and returns its run. If the workflow ID already
// has a run, the function returns that run.
func starts[Out any](d workflow.Definition[flows.Job, Out]) starter {
	return func(ctx context.Context, c *workflow.Client, job flows.Job, opts ...workflow.StartOption) (event.RunID, error) {
		run, err := d.Start(ctx, c, job, opts...)
		if err == nil {
			return run.ID(), nil
		}
		if active, ok := errors.AsType[*workflow.ActiveRunError](err); ok {
			return active.Run, nil
		}
		if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
			return finished.Run, nil
		}
		return "", err
	}
}

// ask waits for the result of a run and records it.
func (x *experiment) ask(ctx context.Context, o *order, run event.RunID) {
	for ctx.Err() == nil {
		got, err := results[o.Workflow].Get(x.Client, run).Result(ctx)
		if err == nil {
			x.sawEnd(run)
			x.mu.Lock()
			x.answers[run] = got
			x.mu.Unlock()
			return
		}
		if failed, ok := errors.AsType[*workflow.RunError](err); ok {
			x.Notef(check.Wrong, run, "its result is %v", failed)
			return
		}
		harm.Pause(ctx, 20*time.Millisecond)
	}
}

// results contains the definitions of the workflows with a result, by name.
var results = map[string]workflow.Definition[flows.Job, flows.Result]{
	flows.Chain.Name(): flows.Chain, flows.Fan.Name(): flows.Fan, flows.Mail.Name(): flows.Mail, flows.Long.Name(): flows.Long,
	flows.Crowd.Name(): flows.Crowd, flows.Holder.Name(): flows.Holder, flows.Hoarder.Name(): flows.Hoarder,
}

// send sends the messages of one sender in order, and may send each message several times. It sends
// the next message after the previous one was accepted.
func (x *experiment) send(ctx context.Context, o *order, run event.RunID, sender int) {
	r := x.Chance(uint64(o.Input.ID)<<8 | uint64(sender))
	target := x.Client.Run(run)
	for number := 1; number <= o.Input.Messages; number++ {
		m := flows.Message{Sender: sender, Number: number}
		for range 1 + r.IntN(2) {
			harm.Insist(ctx, func(ctx context.Context) error {
				err := flows.Post.Send(ctx, target, m, workflow.IdempotencyKey(m.Key()))
				if errors.Is(err, workflow.ErrRunTerminal) && number < o.Input.Messages {
					x.Notef(check.Message, run, "message %d of sender %d was refused, for the run has ended", number, sender)
				}
				if errors.Is(err, workflow.ErrRunTerminal) {
					return nil // The run ended with the first delivery of this message, so the repeated delivery fails.
				}
				return err
			})
		}
		if !harm.Pause(ctx, harm.Random(r, o.pauses)) {
			return
		}
	}
}

func (x *experiment) cancel(ctx context.Context, o *order, run event.RunID) {
	if !harm.Pause(ctx, o.cancel) {
		return
	}
	harm.Insist(ctx, func(ctx context.Context) error {
		err := x.Client.Run(run).Cancel(ctx, "chaos")
		if errors.Is(err, workflow.ErrRunTerminal) {
			return nil // An attempt whose response was lost has ended the run.
		}
		return err
	})
}
