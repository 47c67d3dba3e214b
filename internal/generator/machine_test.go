package generator_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/depth"
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

// The test proves that wrong transitions do not compile. A step can return only values that
// generated methods return. There is no method for a missing step, and each method requires the
// data of its step.
func TestCONT1_AnUnknownNextStepAndWrongDataDoNotCompile(t *testing.T) {
	const was = "return c.awaitDecide(Decisions).OrAfter(time.Hour, c.goCheck(order, n)), nil"
	line := strings.Count(machineSource[:strings.Index(machineSource, was)], "\n") + 1
	cases := map[string]struct{ is, want string }{
		"an unknown step":                    {"return c.goRefuse(order), nil", "c.goRefuse undefined"},
		"an unknown step to wait for":        {"return c.awaitRefuse(Decisions), nil", "c.awaitRefuse undefined"},
		"an argument of another type":        {"return c.goCheck(n, n), nil", "cannot use n (variable of type int) as string value"},
		"an argument too few":                {"return c.goCheck(order), nil", "not enough arguments in call to c.goCheck"},
		"a topic of other messages":          {"return c.awaitDecide(Names), nil", "cannot use Names"},
		"a result of another type":           {"return c.done(order), nil", "cannot use order (variable of type string) as int value"},
		"a step of another machine":          {"return (&other{}).goBegin(), nil", "cannot use (&other{}).goBegin()"},
		"a step of another machine, in time": {"return c.awaitDecide(Decisions).OrAfter(time.Hour, (&other{}).goBegin()), nil", "cannot use (&other{}).goBegin()"},
		"a step instead of what leads to it": {"return c.decide, nil", "cannot use c.decide"},
	}
	names := depth.Sample(slices.Sorted(maps.Keys(cases)), 3)
	// Each case has its own package, such as claims0, so that all cases are generated and compiled
	// together.
	own := func(i int, text string) string { return strings.ReplaceAll(text, "claims", fmt.Sprintf("claims%d", i)) }
	dir := usermodule.New(t, nil)
	for i := range names {
		usermodule.Write(t, dir, own(i, "claims/claims.go"), own(i, machineSource))
	}
	mustRun(t, dir)
	build(t, dir)
	for i, name := range names {
		usermodule.Write(t, dir, own(i, "claims/claims.go"), own(i, strings.Replace(machineSource, was, cases[name].is, 1)))
	}
	mustRun(t, dir) // A mistake in a function body does not prevent the generation.
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			at, want := own(i, fmt.Sprintf("claims/claims.go:%d:", line)), cases[name].want
			if err == nil || !slices.ContainsFunc(strings.Split(string(out), "\n"), func(l string) bool {
				return strings.Contains(l, at) && strings.Contains(l, want)
			}) {
				t.Errorf("got %v\n%s\nwant an error at %s with %q", err, out, at, want)
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
