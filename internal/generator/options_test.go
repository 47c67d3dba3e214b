package generator_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
)

// place is a kind of declaration with a directive. The kind determines which options can be
// combined.
type place struct {
	name string
	kind directive.Kind
	// samples contains an example of each option. Options that are missing belong to another place
	// with the same kind of directive.
	samples map[string]string
	// refused lists the pairs of options that the generator must reject.
	refused []string
	// declare returns a declaration with the options. Its name contains the number.
	declare func(number int, options string) string
}

// workflowOptions contains examples of the options that have the same meaning for workflows,
// machines and graphs.
var workflowOptions = map[string]string{
	"as": "as=", "name": "name=", "timeout": "timeout=72h", "retention": "retention=240h", "queue": "queue=slow", "priority": "priority=7", "fair": "fair=IN",
	"startwithin": "startwithin=12h", "rerun": "rerun=3,constant(1m)", "singleton": "singleton=IN", "debounce": "debounce=IN,10s", "uses": `uses=perTenant("all")`, "schedule": `schedule="every 1h"`,
	"pin": "pin",
}

func with(all map[string]string, more map[string]string) map[string]string {
	joined := map[string]string{}
	for _, m := range []map[string]string{all, more} {
		for option, sample := range m {
			joined[option] = sample
		}
	}
	return joined
}

var startsRefused = []string{"debounce singleton", "debounce schedule", "debounce startwithin", "schedule singleton", "fair schedule"}

var places = []place{
	{
		name: "flows", kind: directive.Workflow,
		samples: with(workflowOptions, map[string]string{"children": "children=5", "batch": "batch=2,5s,IN", "wire": "wire=in:stored"}),
		refused: slices.Concat(startsRefused, []string{"batch debounce", "batch schedule", "batch singleton", "batch startwithin", "schedule wire"}),
		declare: func(n int, options string) string {
			in := "in string"
			switch {
			case strings.Contains(options, "schedule="):
				return fmt.Sprintf("//flow:workflow %s\nfunc flow%d(ctx workflow.Context) (string, error) { return Work(ctx, \"a\") }\n", options, n)
			case strings.Contains(options, "batch="):
				in = "in []string"
			}
			return fmt.Sprintf("//flow:workflow %s\nfunc flow%d(ctx workflow.Context, %s) (string, error) { return Work(ctx, fmt.Sprint(in)) }\n", strings.ReplaceAll(options, "IN", "in"), n, in)
		},
	},
	{
		name: "graphs", kind: directive.DAG,
		samples: with(workflowOptions, map[string]string{"onfail": "onfail=finish", "result": "result=last", "schedule": ""}),
		refused: []string{"debounce singleton", "debounce startwithin"},
		declare: func(n int, options string) string {
			return fmt.Sprintf("//flow:dag %s\ntype flow%[2]d struct{ In string }\n\n//flow:step\nfunc (f *flow%[2]d) first(ctx context.Context) (string, error) { return f.In, nil }\n\n//flow:step\nfunc (f *flow%[2]d) last(ctx context.Context, first string) (string, error) { return first, nil }\n",
				strings.ReplaceAll(options, "IN", "In"), n)
		},
	},
	{
		name: "steps", kind: directive.Step,
		samples: map[string]string{
			"as": "as=", "name": "name=", "key": "key=in", "retries": "retries=3", "backoff": "backoff=constant(1s)", "jitter": "jitter=0.2", "total": "total=10m", "timeout": "timeout=10s",
			"queue": "queue=slow", "fatal": "fatal=errGone", "uses": "uses=perTenant(in)", "wire": "wire=in:stored", "nonidempotent": "nonidempotent",
		},
		declare: func(n int, options string) string {
			call := fmt.Sprint("Flow", n)
			if strings.Contains(options, "as=") {
				call = fmt.Sprint("Named", n)
			}
			return fmt.Sprintf("//flow:step %s\nfunc flow%[2]d(ctx context.Context, in string) (string, error) { return in, nil }\n\n//flow:workflow\nfunc run%[2]d(ctx workflow.Context, id string) (string, error) { return %[3]s(ctx, id) }\n", options, n, call)
		},
	},
}

// elsewhere lists the options of steps that are valid only in graphs and machines, and the options
// of machines. The cases in testdata/mistakes/dag_options and the golden packages graphs and
// machines cover these options.
var elsewhere = map[directive.Kind][]string{
	directive.Step:    {"after", "each", "if", "onfail", "catch"},
	directive.DAG:     {"schedule"},
	directive.Machine: directive.Machine.Options(),
}

// The test proves that every two options of a directive are either executed or refused. If they are
// accepted, the declaration must survive crashes. If they are refused, the diagnostic must contain
// a position and a fix. make test executes workflows only, make test-all graphs and steps as well.
func TestGEN3_EveryTwoOptionsAreExecutedOrRefused(t *testing.T) {
	files := map[string]string{}
	refusals := map[string]map[int]string{} // refusals by file and line
	var crashes strings.Builder
	legal, illegal := 0, 0
	for _, p := range places {
		options := p.options(t)
		var accepted [][2]string
		text, line := header("refused"+p.name), map[int]string{}
		for i, a := range options {
			for _, b := range options[i+1:] {
				if !slices.Contains(p.refused, a+" "+b) {
					accepted = append(accepted, [2]string{a, b})
					continue
				}
				illegal++
				line[strings.Count(text, "\n")+1] = a + " " + b
				text += p.declare(illegal, p.written([]string{a, b}, illegal)) + "\n"
			}
		}
		if len(line) > 0 {
			files["refused"+p.name+"/x.go"], refusals["refused"+p.name+"/x.go"] = text, line
		}
		legal += len(accepted)
		body := header(p.name)
		for n, set := range p.cover(accepted) {
			body += p.declare(n, p.written(set, n)) + "\n"
			if p.executed() {
				fmt.Fprintf(&crashes, "%s", p.crash(set, n))
			}
		}
		files[p.name+"/x.go"] = body
	}
	files["crash/crash_test.go"] = crashTest(crashes.String())
	dir := usermodule.New(t, files)
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Diagnostics {
		pair, expected := refusals[d.File][d.Line]
		switch {
		case !expected && refusals[d.File] == nil:
			t.Errorf("refused, and should not be: %s", d)
		case d.Fix == "" || d.Column == 0:
			t.Errorf("%s: without a position or a way out: %s", pair, d)
		}
		delete(refusals[d.File], d.Line)
	}
	for file, lines := range refusals {
		for _, pair := range lines {
			t.Errorf("%s: the pair %s is accepted", file, pair)
		}
	}
	t.Logf("%d pairs accepted, %d refused", legal, illegal)
	if t.Failed() {
		return
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "./crash")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("execute the pairs: %v\n%.6000s", err, out)
	}
}

// options returns the options that the place accepts. It fails the test if an option of the kind
// has no sample.
func (p place) options(t *testing.T) (names []string) {
	t.Helper()
	for _, option := range p.kind.Options() {
		switch {
		case p.samples[option] != "":
			names = append(names, option)
		case !slices.Contains(elsewhere[p.kind], option):
			t.Errorf("no row for %s= of //flow:%s: say what a sample of it is, and with which options it is refused", option, p.kind)
		}
	}
	return names
}

// executed reports whether the declarations of the place are executed. In make test, only workflows
// are, which have most of the options.
func (p place) executed() bool { return depth.Full() || p.kind == directive.Workflow }

// written returns the options in the syntax of a directive.
func (p place) written(set []string, number int) string {
	var all []string
	for _, option := range set {
		switch sample := p.samples[option]; option {
		case "as":
			all = append(all, fmt.Sprint(sample, "Named", number))
		case "name":
			all = append(all, fmt.Sprintf("%s%s.named%d", sample, p.name, number))
		default:
			all = append(all, sample)
		}
	}
	return strings.Join(all, " ")
}

// cover returns sets of compatible options such that each accepted pair is part of at least one
// set.
func (p place) cover(accepted [][2]string) (sets [][]string) {
	open := slices.Clone(accepted)
	goes := func(set []string, option string) bool {
		return !slices.ContainsFunc(set, func(other string) bool {
			return other == option || !slices.Contains(accepted, [2]string{min(other, option), max(other, option)})
		})
	}
	for len(open) > 0 {
		set := []string{open[0][0], open[0][1]}
		for _, pair := range open[1:] {
			for _, option := range pair {
				if goes(set, option) {
					set = append(set, option)
				}
			}
		}
		slices.Sort(set)
		open = slices.DeleteFunc(open, func(pair [2]string) bool { return slices.Contains(set, pair[0]) && slices.Contains(set, pair[1]) })
		sets = append(sets, set)
	}
	return sets
}

// crash returns the call that executes the declaration with a set of options and crashes.
func (p place) crash(set []string, n int) string {
	goName := fmt.Sprint("Flow", n)
	if slices.Contains(set, "as") {
		goName = fmt.Sprint("Named", n)
	}
	in := `"a"`
	switch {
	case p.kind == directive.Step:
		goName = fmt.Sprint("Run", n)
	case slices.Contains(set, "schedule"):
		in = "workflow.None{}"
	case p.kind == directive.DAG:
		in = fmt.Sprintf("%s.%sInput{In: \"a\"}", p.name, goName)
	}
	return fmt.Sprintf("\tcrash(t, %q, %s.%s, %s, %s.Register)\n", strings.Join(set, " "), p.name, goName, in, p.name)
}

func header(name string) string {
	text := "package " + name + "\n\nimport (\n\t\"context\"\n\t\"errors\"\n\t\"fmt\"\n\n\t\"github.com/flowgen/flowgen/runtime/limit\"\n\t\"github.com/flowgen/flowgen/runtime/workflow\"\n)\n\n" +
		"var errGone = errors.New(\"gone\")\n\nvar (\n\t_ = fmt.Sprint\n\t_ workflow.None\n)\n\nvar perTenant = limit.NewKeyed[string](\"" + name + "\", limit.Config{AtOnce: 1})\n\n" +
		"//flow:step\nfunc work(ctx context.Context, id string) (string, error) { return id, nil }\n\n"
	return text
}

func crashTest(calls string) string {
	imports := ""
	for _, p := range places {
		if p.executed() {
			imports += fmt.Sprintf("\t\"example.com/user/%s\"\n", p.name)
		}
	}
	return `package crash

import (
	"testing"

` + imports + `	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func crash[In, Out any](t *testing.T, options string, d workflow.Definition[In, Out], in In, register func(workflow.Registrar)) {
	t.Run(options, func(t *testing.T) {
		workflowtest.CrashEverywhere(t, d, in, func(env *workflowtest.Env) { register(env) },
			workflowtest.Sample(6), workflowtest.Pairs(2), workflowtest.AllowInterrupted())
	})
}

func TestOptions(t *testing.T) {
` + calls + "}\n"
}
