package directive_test

import (
	"go/ast"
	"go/token"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// start is the position of the comments in the tests.
const start = token.Pos(1)

func comment(text string) *ast.Comment { return &ast.Comment{Slash: start, Text: text} }

func TestParse_ReadsEveryOption(t *testing.T) {
	for text, want := range map[string]directive.Directive{
		"//flow:step": {Kind: directive.Step},
		"//flow:step as=Charge name=orders.charge retries=5 nonidempotent": {
			Kind: directive.Step, As: "Charge", Name: "orders.charge", Retries: 5, NonIdempotent: true,
		},
		"//flow:step\tkey=order.ID  jitter=0.5 total=10m timeout=1.5s": {
			Kind: directive.Step, Key: directive.Text{Value: "order.ID", Pos: 17}, Jitter: 0.5,
			Total: 10 * time.Minute, Timeout: 1500 * time.Millisecond,
		},
		"//flow:step backoff=constant(2s)": {
			Kind: directive.Step, Backoff: directive.Backoff{Initial: 2 * time.Second, Factor: 1},
		},
		"//flow:step backoff=linear(2s,1m)": {
			Kind: directive.Step, Backoff: directive.Backoff{Initial: 2 * time.Second, Increment: 2 * time.Second, Max: time.Minute, Factor: 1},
		},
		"//flow:step backoff=exponential(200ms,30s)": {
			Kind: directive.Step, Backoff: directive.Backoff{Initial: 200 * time.Millisecond, Max: 30 * time.Second, Factor: 2},
		},
		"//flow:step backoff=\"exponential(200ms, 30s, 1.5)\"": {
			Kind: directive.Step, Backoff: directive.Backoff{Initial: 200 * time.Millisecond, Max: 30 * time.Second, Factor: 1.5},
		},
		"//flow:step fatal=ErrX,*TypeY,*pkg.TypeZ": {
			Kind: directive.Step, Fatal: []directive.Reference{
				{Name: "ErrX", Pos: 19}, {Pointer: true, Name: "TypeY", Pos: 24}, {Pointer: true, Qualifier: "pkg", Name: "TypeZ", Pos: 31},
			},
		},
		"//flow:step queue=gpu": {Kind: directive.Step, Queue: "gpu"},
		"//flow:workflow queue=slow timeout=24h retention=168h children=500": {
			Kind: directive.Workflow, Queue: "slow", Timeout: 24 * time.Hour, Retention: 168 * time.Hour, Children: 500,
		},
		"//flow:error name=billing.Declined-2": {Kind: directive.Error, Name: "billing.Declined-2"},
		"//flow:package name=shop register=Setup steps=All": {
			Kind: directive.Package, Name: "shop", Register: "Setup", Steps: "All",
		},
		"//flow:ignore any rule and any reason": {Kind: directive.Ignore},
	} {
		got, problems := directive.Parse(comment(text))
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
		want.Pos = start
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(directive.Directive{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestParse_QuotesProtectSpaces(t *testing.T) {
	for text, want := range map[string]directive.Text{
		`//flow:step key="a + b"`:     {Value: `a + b`, Pos: 18},
		`//flow:step key="a+\"x\""`:   {Value: `a+"x"`, Pos: 18},
		"//flow:step key=`a + \"x\"`": {Value: `a + "x"`, Pos: 18},
		`//flow:step key=a+" "+b`:     {Value: `a+" "+b`, Pos: 17},
		`//flow:step key=" "+b`:       {Value: `" "+b`, Pos: 17},
		`//flow:step key=f(a,'(')`:    {Value: `f(a,'(')`, Pos: 17},
		`//flow:step key=a=="="`:      {Value: `a=="="`, Pos: 17},
	} {
		got, problems := directive.Parse(comment(text))
		if len(problems) > 0 {
			t.Errorf("%s: %v", text, problems)
		}
		if d := cmp.Diff(want, got.Key); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestParse_ReportsEachMistakeOnceAtItsPlace(t *testing.T) {
	for text, want := range map[string][]token.Pos{
		"//flow:step retries=x jitter=y": {21, 30},
		"//flow:step retries = 5":        {13},
		"//flow:step retries =5":         {13},
		"//flow:step retries= 5":         {13},
		"//flow:step =5":                 {13},
		"//flow:step as=a as=B":          {16, 18},
		"//flow:step name=\"x":           {18},
		"//flow:step backoff=linear(1s":  {21},
		"//flow:step fatal=":             {13},
		"//flow:step fatal=A,,B":         {21},
		"//flow:step fatal=a.b.c":        {19},
		"//flow:step fatal=_":            {19},
		"//flow:step jitter=-0.1":        {20},
		"//flow:step name=a.b/c":         {18},
		"//flow:package name=a#b":        {21},
		"//flow:workflow retries=5":      {17},
		"//flow:step timeout=1d":         {21},
		"//flow:":                        {1},
		"//flow:machine start=a.b":       {22},
		"//flow:machine max=0":           {20},
		"//flow:machine max=x":           {20},
		"//flow:machine retries=1":       {16},
		"//flow:step catch=":             {13},
	} {
		_, problems := directive.Parse(comment(text))
		var got []token.Pos
		for _, p := range problems {
			got = append(got, p.Pos)
			if p.What == "" || p.Fix == "" {
				t.Errorf("%s: the problem %+v does not say what is wrong and how to mend it", text, p)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: positions (-want +got):\n%s", text, d)
		}
	}
}

func TestHas_TellsAGivenZeroFromNone(t *testing.T) {
	given, _ := directive.Parse(comment("//flow:step retries=0"))
	none, _ := directive.Parse(comment("//flow:step"))
	if !given.Has("retries") || none.Has("retries") {
		t.Errorf("Has(retries) is %v where it was given and %v where not", given.Has("retries"), none.Has("retries"))
	}
	if got := given.At("retries"); got != 13 {
		t.Errorf("At(retries) is %d, want 13", got)
	}
	if got := none.At("retries"); got != start {
		t.Errorf("At(retries) without it is %d, want that of the directive", got)
	}
}

func TestNearMiss_FindsWhatWasMeantAsADirective(t *testing.T) {
	for _, text := range []string{
		"// flow:step", "//flow: step", "//Flow:step", "//FLOW:STEP", "/*flow:step*/", "/* flow:step */",
		"// flow:step retries=5", "// flow: step nonidempotent", "//flow :workflow", "// flow:stpe", "// Flow:Workflow timeout=5s",
		"//flowgen:step", "//flow-step", "//flow.step", "//flowstep", "// @flow:step", "// +flow:step", "//go:flow:step",
		"//@flow:step retries=5", "//+flow-step", "//flow_workflow timeout=5s", "/* @flow:step */", "// FlowGen:Workflow",
	} {
		p, ok := directive.NearMiss(comment(text))
		if !ok || p.Fix == "" {
			t.Errorf("%s is not recognised as a near-miss", text)
		}
	}
}

func TestNearMiss_LeavesProseAndDirectivesAlone(t *testing.T) {
	for _, text := range []string{
		"//flow:step", "//flow:Step", "//flow:step retries=x", "// flow: step by step", "// flow: first charge, then ship",
		"// workflow: step", "// overflow:step", "//\tflow:step", "// see //flow:step", "// flow", "//go:generate flow:step", "// flow:ed",
		"// flow.Error", "// flow step", "// flow.step", "// flow-step", "//flow.step by step", "//flows", "//flowsteps", "//flow.stpe", "//workflow",
		"//go:build flow", "//nolint:flow",
	} {
		if p, ok := directive.NearMiss(comment(text)); ok {
			t.Errorf("%s is taken for a near-miss: %s", text, p.What)
		}
	}
}
