package machines

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

type shop struct{ broken bool }

func (s *shop) Check(_ context.Context, order string) error {
	switch {
	case order == "":
		return ErrNoOrder
	case s.broken:
		return errors.New("closed")
	}
	return nil
}

func (*shop) Ask(context.Context, string, string) error   { return nil }
func (*shop) Refund(context.Context, string, int64) error { return nil }

func decides(at time.Duration, d Decision) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		Register(env, &shop{})
		env.At(at, func(ctx context.Context) {
			if err := Decisions.Send(ctx, env.Run(), d, workflow.IdempotencyKey("d")); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		})
	}
}

func TestRefund_EndsInEachWay(t *testing.T) {
	for name, tt := range map[string]struct {
		claim Claim
		setup func(env *workflowtest.Env)
		want  Outcome
	}{
		"small":          {Claim{"a", 100}, func(env *workflowtest.Env) { Register(env, &shop{}) }, Outcome{Refunded: 100}},
		"agreed":         {Claim{"a", 5000}, decides(time.Hour, Decision{OK: true}), Outcome{Refunded: 5000}},
		"refused":        {Claim{"a", 5000}, decides(30*time.Hour, Decision{Why: "worn"}), Outcome{Reminders: 1, Why: "worn"}},
		"nobody answers": {Claim{"a", 5000}, func(env *workflowtest.Env) { Register(env, &shop{}) }, Outcome{Refunded: 5000, Reminders: 3}},
		"no order":       {Claim{"", 5000}, func(env *workflowtest.Env) { Register(env, &shop{}) }, Outcome{Why: "no such order"}},
		"shop is closed": {Claim{"a", 5000}, func(env *workflowtest.Env) { Register(env, &shop{broken: true}) },
			Outcome{Why: "later, please: step refunds.refund.check failed: closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.New(t)
			tt.setup(env)
			if got, err := Refund.Execute(t.Context(), env.Client(), tt.claim); err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestRefund_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, Refund, Claim{"a", 5000}, decides(30*time.Hour, Decision{OK: true}), workflowtest.Pairs(50))
	workflowtest.Interleave(t, Refund, Claim{"a", 5000}, decides(24*time.Hour, Decision{OK: true}), 50, workflowtest.AllowUnread())
}
