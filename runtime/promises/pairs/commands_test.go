package pairs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A command is a request about a run.
type command struct {
	name string
	verb string // the requested operation, whoever requests it through whichever interface
	bulk bool   // a bulk action, whose answer does not name new runs
	do   func(ctx context.Context, s *stage, c *cell) answer
}

// answer is the answer to a command.
type answer struct {
	Code string      // done, the code of a problem, or waits if there is no answer yet
	Made event.RunID // the run that the command has created or found
	Err  error
}

// The answers that are not the code of a problem.
const (
	done  = "done"
	waits = "waits"
)

// answeredWith returns the answer for err. If err is nil, the answer is done.
func answeredWith(made event.RunID, err error) answer {
	if p := admin.ProblemOf(err); p != nil {
		return answer{Code: p.Code, Err: err}
	}
	return answer{Code: done, Made: made}
}

// The verbs that are not in [admin.Actions].
const (
	verbNothing = "nothing"
	verbSend    = "send"
	verbAsk     = "ask"
	verbHook    = "send to its hook"
	verbFailing = "fail its hook"
	verbUse     = "start: use the active run"
	verbFail    = "start: fail if one is active"
	verbReject  = "start: reject if one has ended"
)

// commands returns all commands about runs.
func commands() []command {
	all := []command{{verbNothing, verbNothing, false, func(context.Context, *stage, *cell) answer { return answer{Code: done} }}}
	for _, verb := range admin.Actions() {
		all = append(all, command{verb, verb, false, func(ctx context.Context, s *stage, c *cell) answer {
			acted, err := s.service.Act(ctx, string(c.run), actionOf(verb, c))
			return answeredWith(event.RunID(acted.New), err)
		}})
	}
	all = append(all,
		command{"cancel many", "cancel", false, func(ctx context.Context, s *stage, c *cell) answer {
			return answeredWith("", ops.New(s.Client).CancelMany(ctx, "", c.run)[0])
		}},
		command{"send", verbSend, false, func(ctx context.Context, s *stage, c *cell) answer {
			return answeredWith("", goOn.Send(ctx, s.Client.Run(c.run), "sent"))
		}},
		command{"start", verbUse, false, starts(workflow.IDPolicy{})},
		command{"start, fail", verbFail, false, starts(workflow.IDPolicy{Active: workflow.FailActive})},
		command{"start, reject", verbReject, false, starts(workflow.IDPolicy{Finished: workflow.RejectFinished})},
	)
	all = append(all, calls()...)
	all = append(all, ofBuilds()...)
	return append(all, bulks()...)
}

func actionOf(verb string, c *cell) admin.Action {
	a := admin.Action{Verb: verb}
	if verb == "fork" {
		a.Step = cmp.Or(c.step, "first")
	}
	return a
}

// starts returns a function that starts another run with the workflow ID of the cell's run.
func starts(policy workflow.IDPolicy) func(ctx context.Context, s *stage, c *cell) answer {
	return func(ctx context.Context, s *stage, c *cell) answer {
		run, err := c.def.Start(ctx, s.Client, work{Do: "message", Key: c.key, By: "/started"}, workflow.WithID(c.id), workflow.WithIDPolicy(policy),
			workflow.WithTags(map[string]string{tagCell: c.key + "/started"}), kept)
		if err != nil {
			return answeredWith("", err)
		}
		return answeredWith(run.ID(), nil)
	}
}

// bulks returns, for each action, a bulk action whose filter matches only the cell's run.
func bulks() (all []command) {
	for _, verb := range admin.Actions() {
		all = append(all, command{"bulk " + verb, verb, true, func(ctx context.Context, s *stage, c *cell) answer {
			one := 1
			b, err := s.service.StartBulk(ctx, admin.NewBulk{
				BulkRequest: admin.BulkRequest{Filter: admin.Filter{Tags: map[string]string{tagSubject: c.key}, Statuses: c.among, Children: true, System: true}, Action: actionOf(verb, c)}, Expect: &one,
			})
			for err == nil && (b.Status == admin.BulkPending || b.Status == admin.BulkRunning) {
				select {
				case <-ctx.Done():
					return answer{Code: waits, Err: ctx.Err()}
				case <-time.After(2 * time.Millisecond): // gives virtual time the opportunity to pass
				}
				b, err = s.direct.Bulk(ctx, b.ID)
			}
			switch {
			case err != nil:
				return answeredWith("", err)
			case b.Done == 1:
				return answer{Code: done}
			}
			code := admin.CodeFailed
			if b.Refused == 1 {
				code = admin.CodeRefused
			}
			detail := fmt.Sprintf("bulk action is %s: done %d, failed %d, refused %d, skipped %d", b.Status, b.Done, b.Failed, b.Refused, b.Skipped)
			if len(b.Failures) > 0 {
				detail = cmp.Or(b.Failures[0].Detail, detail)
			}
			return answer{Code: code, Err: errors.New(detail)}
		}})
	}
	return all
}
