package machines

import (
	"context"
	"errors"
	"testing"
	"time"

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
		Register(env, &Counts{}, mail, time.Now, 1)
		more(env)
	}
}

func click(at time.Duration, token string) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		env.At(at, func(ctx context.Context) {
			if err := Clicked.Send(ctx, env.Run(), Click{token}, workflow.IdempotencyKey(token+at.String())); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		})
	}
}

func TestCONT1_AMachineGoesWhereItsStepsLead(t *testing.T) {
	for name, tt := range map[string]struct {
		in    Signup
		mail  outbox
		setup func(env *workflowtest.Env)
		want  Profile
	}{
		"clicked at once":          {Signup{"a"}, outbox{}, click(time.Hour, "x"), Profile{Email: "a"}},
		"clicked after a reminder": {Signup{"a"}, outbox{}, click(100*time.Hour, "x"), Profile{Email: "a", Reminded: 1}},
		"never clicked":            {Signup{"a"}, outbox{}, func(*workflowtest.Env) {}, Profile{Email: "a", Reminded: 3, Why: "no answer"}},
		"clicked with a bad token": {Signup{"a"}, outbox{}, click(time.Hour, ""), Profile{Email: "a", Reminded: 3, Why: "no answer"}},
		"canceled": {Signup{"a"}, outbox{}, func(env *workflowtest.Env) {
			env.At(time.Hour, func(ctx context.Context) {
				if err := Canceled.Send(ctx, env.Run(), "no time"); err != nil {
					panic(err)
				}
			})
		}, Profile{Email: "a", Why: "no time"}},
		"the mail does not leave": {Signup{"a"}, outbox{true}, func(*workflowtest.Env) {},
			// What the failed step has written was not committed.
			Profile{Why: "step machines.onboarding.createAccount failed: no route"}},
		"a sentinel is known again": {Signup{}, outbox{}, func(*workflowtest.Env) {}, Profile{Why: "taken"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			setup(&tt.mail, tt.setup)(env)
			got, err := Onboarding.Execute(t.Context(), env.Client(), tt.in)
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestCONT1_AMachineMayHaveNoResult(t *testing.T) {
	env := workflowtest.New(t)
	counts := &Counts{}
	Register(env, counts, &outbox{}, time.Now, 1)
	if _, err := Counter.Execute(t.Context(), env.Client(), CounterInput{From: 3, To: 9}); err != nil || counts.Steps != 6 {
		t.Errorf("got %d steps, %v", counts.Steps, err)
	}
}
