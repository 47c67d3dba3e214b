package generated_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/generated/machines"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

type outbox struct{ failing bool }

func (o *outbox) Send(string, string) error {
	if o.failing {
		return errors.New("no route")
	}
	return nil
}

func setup(mail *outbox, more func(env *workflowtest.Env)) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		machines.Register(env, &machines.Counts{}, mail, time.Now, 1)
		more(env)
	}
}

func click(at time.Duration, token string) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		env.At(at, func(ctx context.Context) {
			if err := machines.Clicked.Send(ctx, env.Run(), machines.Click{Token: token}, workflow.IdempotencyKey(token+at.String())); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		})
	}
}

func TestCONT1_AMachineGoesWhereItsStepsLead(t *testing.T) {
	for name, tt := range map[string]struct {
		in    machines.Signup
		mail  outbox
		setup func(env *workflowtest.Env)
		want  machines.Profile
	}{
		"clicked at once":          {machines.Signup{Email: "a"}, outbox{}, click(time.Hour, "x"), machines.Profile{Email: "a"}},
		"clicked after a reminder": {machines.Signup{Email: "a"}, outbox{}, click(100*time.Hour, "x"), machines.Profile{Email: "a", Reminded: 1}},
		"never clicked":            {machines.Signup{Email: "a"}, outbox{}, func(*workflowtest.Env) {}, machines.Profile{Email: "a", Reminded: 3, Why: "no answer"}},
		"clicked with a bad token": {machines.Signup{Email: "a"}, outbox{}, click(time.Hour, ""), machines.Profile{Email: "a", Reminded: 3, Why: "no answer"}},
		"canceled": {machines.Signup{Email: "a"}, outbox{}, func(env *workflowtest.Env) {
			env.At(time.Hour, func(ctx context.Context) {
				if err := machines.Canceled.Send(ctx, env.Run(), "no time"); err != nil {
					panic(err)
				}
			})
		}, machines.Profile{Email: "a", Why: "no time"}},
		"the mail does not leave": {machines.Signup{Email: "a"}, outbox{true}, func(*workflowtest.Env) {},
			// What the failed step has written was not committed.
			machines.Profile{Why: "step machines.onboarding.createAccount failed: no route"}},
		"a sentinel is known again": {machines.Signup{}, outbox{}, func(*workflowtest.Env) {}, machines.Profile{Why: "taken"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			setup(&tt.mail, tt.setup)(env)
			got, err := machines.Onboarding.Execute(t.Context(), env.Client(), tt.in)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestCONT1_AMachineMayHaveNoResult(t *testing.T) {
	env := workflowtest.New(t)
	counts := &machines.Counts{}
	machines.Register(env, counts, &outbox{}, time.Now, 1)
	if _, err := machines.Counter.Execute(t.Context(), env.Client(), machines.CounterInput{From: 3, To: 9}); err != nil || counts.Steps != 6 {
		t.Errorf("got %d steps, %v", counts.Steps, err)
	}
}
