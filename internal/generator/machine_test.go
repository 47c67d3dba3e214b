package generator_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/usermodule"
)

const machineSource = `package claims

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Decision is a message.
type Decision struct{ OK bool }

var (
	Decisions = workflow.NewTopic[Decision]("decisions")
	Names     = workflow.NewTopic[string]("names")
)

//flow:machine start=check
type claim struct{ N int }

//flow:machine start=begin
type other struct{ N int }

//flow:step
func (c *claim) check(ctx context.Context, order string, n int) (step.Next[claim, int], error) {
	return c.awaitDecide(Decisions).OrAfter(time.Hour, c.goCheck(order, n)), nil
}

//flow:step
func (c *claim) decide(ctx context.Context, d Decision) (step.Next[claim, int], error) {
	return c.done(7), nil
}

//flow:step
func (o *other) begin(ctx context.Context) (step.Next[other, int], error) { return o.done(1), nil }
`

// What a step can return is made by generated methods only: there is none for a step that there
// is not, and each takes what the step does.
func TestCONT1_AnUnknownNextStepAndWrongDataDoNotCompile(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"claims/claims.go": machineSource})
	mustRun(t, dir)
	build(t, dir)
	const was = "return c.awaitDecide(Decisions).OrAfter(time.Hour, c.goCheck(order, n)), nil"
	line := strings.Count(machineSource[:strings.Index(machineSource, was)], "\n") + 1
	for name, tt := range map[string]struct{ is, want string }{
		"an unknown step":                    {"return c.goRefuse(order), nil", "c.goRefuse undefined"},
		"an unknown step to wait for":        {"return c.awaitRefuse(Decisions), nil", "c.awaitRefuse undefined"},
		"an argument of another type":        {"return c.goCheck(n, n), nil", "cannot use n (variable of type int) as string value"},
		"an argument too few":                {"return c.goCheck(order), nil", "not enough arguments in call to c.goCheck"},
		"a topic of other messages":          {"return c.awaitDecide(Names), nil", "cannot use Names"},
		"a result of another type":           {"return c.done(order), nil", "cannot use order (variable of type string) as int value"},
		"a step of another machine":          {"return (&other{}).goBegin(), nil", "cannot use (&other{}).goBegin()"},
		"a step of another machine, in time": {"return c.awaitDecide(Decisions).OrAfter(time.Hour, (&other{}).goBegin()), nil", "cannot use (&other{}).goBegin()"},
		"a step instead of what leads to it": {"return c.decide, nil", "cannot use c.decide"},
	} {
		t.Run(name, func(t *testing.T) {
			usermodule.Write(t, dir, "claims/claims.go", strings.Replace(machineSource, was, tt.is, 1))
			mustRun(t, dir) // a body with mistakes does not keep the generator from its work
			cmd := exec.CommandContext(t.Context(), "go", "vet", "./claims")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			at := fmt.Sprintf("claims/claims.go:%d:", line)
			if err == nil || !strings.Contains(string(out), at) || !strings.Contains(string(out), tt.want) {
				t.Errorf("got %v\n%s\nwant an error at %s with %q", err, out, at, tt.want)
			}
		})
	}
}

func TestGEN3_NamesStoredNamesOfMachinesThatChanged(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"claims/claims.go": machineSource})
	mustRun(t, dir)
	usermodule.Write(t, dir, "claims/claims.go", strings.NewReplacer("decide(ctx context.Context, d Decision)", "judge(ctx context.Context, d Decision)", "awaitDecide", "awaitJudge",
		"order string, n int", "invoice string, n int", "goCheck(order", "goCheck(invoice").Replace(machineSource))
	all := strings.Join(warnings(mustRun(t, dir)), "\n")
	for _, want := range []string{`workflow Claim stored a parameter as "order"`, `claimCheck stored a parameter as "order"`, `no step is stored as "claims.claim.decide" any more`, "name=claims.claim.decide"} {
		if !strings.Contains(all, want) {
			t.Errorf("the warnings lack %q:\n%s", want, all)
		}
	}
	build(t, dir)
}
