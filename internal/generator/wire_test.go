package generator_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

const bank = `package bank

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:error
var errBroke = errors.New("broke")

//flow:step
func charge(ctx context.Context, customer string, cents int) error { return errBroke }

//flow:workflow
func order(ctx workflow.Context, customer string, cents int) error { return Charge(ctx, customer, cents) }

//flow:workflow
func audit(ctx workflow.Context, account string) error { return nil }
`

// warnings returns the texts of the warnings about stored names.
func warnings(r *generator.Report) []string {
	all := []string{}
	for _, w := range r.Warnings {
		all = append(all, w.String())
	}
	return all
}

func TestGEN3_NamesEveryStoredNameThatChangedAndHowToKeepIt(t *testing.T) {
	cases := map[string]struct {
		change []string // pairs of an old and a new text
		want   []string
	}{
		"nothing":                          {nil, nil},
		"a parameter more":                 {[]string{"account string", "account string, deep bool"}, nil},
		"a parameter less":                 {[]string{"audit(ctx workflow.Context, account string)", "audit(ctx workflow.Context)"}, nil},
		"another body, another Go name":    {[]string{"{ return nil }", "{ return errBroke }", "//flow:workflow\nfunc audit", "//flow:workflow as=Review\nfunc audit"}, nil},
		"a renamed parameter that is kept": {[]string{"//flow:workflow\nfunc audit(ctx workflow.Context, account", "//flow:workflow wire=customer:account\nfunc audit(ctx workflow.Context, customer"}, nil},
		"the parameter of a workflow": {[]string{"account string", "customer string"}, []string{
			`bank/bank.go:20:6: workflow Audit stored a parameter as "account", which is gone, and "customer" is new: runs under way that hold the old name will be blocked: ` +
				`if it was renamed, keep the stored name with wire=customer:account; if not, keep account until no such run is left`,
		}},
		"the same parameter of a step and a workflow": {[]string{"customer string", "payer string", "Charge(ctx, customer", "Charge(ctx, payer"}, []string{
			`bank/bank.go:14:6: step charge stored a parameter as "customer", which is gone, and "payer" is new: runs under way that hold the old name will be blocked: ` +
				`if it was renamed, keep the stored name with wire=payer:customer; if not, keep customer until no such run is left`,
			`bank/bank.go:17:6: workflow Order stored a parameter as "customer", which is gone, and "payer" is new: runs under way that hold the old name will be blocked: ` +
				`if it was renamed, keep the stored name with wire=payer:customer; if not, keep customer until no such run is left`,
		}},
		"the name of a step": {[]string{"func charge(", "func bill(", "Charge(ctx", "Bill(ctx"}, []string{
			`bank/bank.go:14:6: no step is stored as "bank.charge" any more, and runs under way may have that name: ` +
				`if bill took its place, keep the stored name with name=bank.charge; if not, keep the step until no such run is left`,
		}},
		"the stored name of a workflow": {[]string{"//flow:workflow\nfunc audit", "//flow:workflow name=bank.review\nfunc audit"}, []string{
			`bank/bank.go:20:6: the stored name of workflow Audit was "bank.audit" and is "bank.review" now, and runs under way have the old one: ` +
				`keep it with name=bank.audit, unless no such run is left`,
		}},
		"an error": {[]string{"//flow:error", "//flow:error name=bank.Broke"}, []string{
			`bank/flow_gen.go:1:1: the stored name of error errBroke was "bank.errBroke" and is "bank.Broke" now, and runs under way have the old one: ` +
				`keep it with name=bank.errBroke, unless no such run is left`,
		}},
	}
	names := depth.Sample(slices.Sorted(maps.Keys(cases)), 2)
	// Each case has its own package, such as bank0, so that flowgen is executed once for all cases.
	own := func(i int, text string) string { return strings.ReplaceAll(text, "bank", fmt.Sprintf("bank%d", i)) }
	dir := usermodule.New(t, nil)
	for i := range names {
		usermodule.Write(t, dir, own(i, "bank/bank.go"), own(i, bank))
	}
	if w := warnings(mustRun(t, dir)); len(w) > 0 {
		t.Errorf("warnings about new packages: %q", w)
	}
	for i, name := range names {
		usermodule.Write(t, dir, own(i, "bank/bank.go"), own(i, strings.NewReplacer(cases[name].change...).Replace(bank)))
	}
	checked, written := warnings(check(t, dir)), warnings(mustRun(t, dir))
	if w := warnings(check(t, dir)); len(w) > 0 {
		t.Errorf("warnings about files that are up to date: %q", w)
	}
	build(t, dir)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			want := []string{}
			for _, w := range cases[name].want {
				want = append(want, own(i, w))
			}
			others := func(w string) bool { return !strings.HasPrefix(w, own(i, "bank/")) }
			if d := cmp.Diff(want, slices.DeleteFunc(slices.Clone(checked), others)); d != "" {
				t.Errorf("with -check (-want +got):\n%s", d)
			}
			if d := cmp.Diff(want, slices.DeleteFunc(slices.Clone(written), others)); d != "" {
				t.Errorf("when it is written (-want +got):\n%s", d)
			}
		})
	}
}

func TestGEN3_ComparesStoredNamesWithARevision(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"bank/bank.go": bank})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	mustRun(t, dir)
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "before")
	usermodule.Write(t, dir, "bank/bank.go", strings.Replace(bank, "account string", "customer string", 1))
	usermodule.Write(t, dir, "shop/shop.go", strings.Replace(bank, "package bank", "package shop", 1)) // This package does not exist in the revision.
	mustRun(t, dir)
	git("add", ".")
	git("commit", "-q", "-m", "after")
	since := func(revision string) (*generator.Report, error) {
		return generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}, Check: true, Since: revision})
	}
	for revision, want := range map[string]int{"": 0, "HEAD": 0, "HEAD~1": 1} {
		report, err := since(revision)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Warnings) != want || len(report.Changes) > 0 {
			t.Errorf("since %q: %+v, want %d warnings", revision, report, want)
		}
	}
	for _, revision := range []string{"nowhere", "--output=x"} {
		report, err := since(revision)
		if err != nil || len(report.Diagnostics) == 0 || !strings.Contains(report.Diagnostics[0].String(), revision) {
			t.Errorf("since %q: %v, %+v", revision, err, report)
		}
	}
}
