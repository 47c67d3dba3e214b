package flows_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// codeOf is the code of a run. The tests change the code while the run waits.
type codeOf func(ctx workflow.Context) (string, error)

var changedFlow = flowtest.Flow[int, string]("changed")

// change describes a change of the code of an open run, and its expected outcome.
type change struct {
	was, is codeOf
	blocked bool
	twice   bool   // whether the new code waits for two messages
	want    string // result of the run with the new code; empty if the run is blocked
}

// lists is a step with a list as its argument, which may be nil.
var lists = flowtest.AStep[[]string, int]("lists", shim.Policy{})

func wakeUp(ctx workflow.Context) error {
	_, err := flowtest.Wake.Receive(ctx)
	return err
}

// mapped returns code that processes five items, at most limit at a time. A limit of 0 means no
// limit.
func mapped(limit int) codeOf {
	return func(ctx workflow.Context) (string, error) {
		var opts []workflow.MapOption
		if limit > 0 {
			opts = append(opts, workflow.Limit(limit))
		}
		all, err := workflow.Map(ctx, []int{1, 2, 3, 4, 5}, flowtest.Work1.Call, opts...)
		if err == nil {
			err = wakeUp(ctx)
		}
		return fmt.Sprint(all), err
	}
}

func listed(list []string) codeOf {
	return func(ctx workflow.Context) (string, error) {
		if _, err := lists.Call(ctx, list); err != nil {
			return "", err
		}
		return "listed", wakeUp(ctx)
	}
}

// drawing returns code that branches on a random number. It draws before other numbers first.
func drawing(before int) codeOf {
	return func(ctx workflow.Context) (string, error) {
		for range before {
			workflow.Rand(ctx).Int()
		}
		workflow.Rand(ctx).Int()
		return "drawn", wakeUp(ctx)
	}
}

// drawnInto returns code that passes a random number to a step. It draws before other numbers
// first.
func drawnInto(before int) codeOf {
	return func(ctx workflow.Context) (string, error) {
		for range before {
			workflow.Rand(ctx).Int()
		}
		if _, err := flowtest.Work1.Call(ctx, workflow.Rand(ctx).Int()); err != nil {
			return "", err
		}
		return "drawn", wakeUp(ctx)
	}
}

func hooked(opts ...workflow.HookOption) codeOf {
	return func(ctx workflow.Context) (string, error) {
		h, err := flowtest.Paid.Open(ctx, opts...)
		if err != nil {
			return "", err
		}
		return strings.SplitN(h.Token(), "_", 2)[0], wakeUp(ctx)
	}
}

// limitedBy returns code that works under a timeout of d. A d of 0 means no timeout.
func limitedBy(d time.Duration) codeOf {
	return func(ctx workflow.Context) (string, error) {
		if d > 0 {
			var cancel workflow.CancelFunc
			ctx, cancel = workflow.WithTimeout(ctx, d)
			defer cancel()
		}
		if _, err := flowtest.Work1.Call(ctx, 1); err != nil {
			return "", err
		}
		return "limited", wakeUp(ctx)
	}
}

// lateLimit returns code that uses a timeout only after a place that no open run has passed.
func lateLimit(d time.Duration) codeOf {
	return func(ctx workflow.Context) (string, error) {
		if err := wakeUp(ctx); err != nil {
			return "", err
		}
		return limitedBy(d)(ctx)
	}
}

// TestVER1_WhatChangesOfCodeDoToRunsUnderWay proves the rows of the table in docs/use/versions.md
// that have no test of their own. The table describes what happens to open runs when their code
// changes.
func TestVER1_WhatChangesOfCodeDoToRunsUnderWay(t *testing.T) {
	for what, c := range map[string]change{
		"Limit lowered":                       {was: mapped(3), is: mapped(1), blocked: true},
		"Limit raised":                        {was: mapped(1), is: mapped(3), blocked: true},
		"Limit removed":                       {was: mapped(2), is: mapped(0), blocked: true},
		"Limit above the number of items":     {was: mapped(0), is: mapped(5), want: "[1 2 3 4 5]"},
		"a time limit added":                  {was: limitedBy(0), is: limitedBy(time.Hour), blocked: true},
		"a time limit removed":                {was: limitedBy(time.Hour), is: limitedBy(0), blocked: true},
		"another time limit":                  {was: limitedBy(time.Hour), is: limitedBy(2 * time.Hour), want: "limited"},
		"a time limit added later":            {was: wakeTwice, is: lateLimit(time.Hour), twice: true, want: "limited"},
		"nil instead of an empty list":        {was: listed([]string{}), is: listed(nil), blocked: true},
		"an empty list instead of nil":        {was: listed(nil), is: listed([]string{}), blocked: true},
		"one draw more":                       {was: drawing(0), is: drawing(1), want: "drawn"},
		"one draw more before an argument":    {was: drawnInto(0), is: drawnInto(1), blocked: true},
		"another token":                       {was: hooked(workflow.Token("a")), is: hooked(workflow.Token("b")), blocked: true},
		"a token instead of a random one":     {was: hooked(), is: hooked(workflow.Token("b")), blocked: true},
		"a random token instead of one's own": {was: hooked(workflow.Token("c")), is: hooked(), blocked: true},
	} {
		t.Run(what, func(t *testing.T) {
			flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
				bind := func(f codeOf) flowtest.Binding {
					return flowtest.As(changedFlow, func(ctx workflow.Context, _ int) (string, error) { return f(ctx) })
				}
				doLists := lists.As(func(_ context.Context, all []string) (int, error) { return len(all), nil })
				first := w.Work(worker.Config{Parked: 1}, bind(c.was), flowtest.DoWork1, doLists)
				run := flowtest.Start(w, changedFlow, 0)
				w.ReachWaiting(run)
				first.Stop()
				// The additional step gives the second worker another fingerprint. Without
				// inlining, the two programs would have the same one.
				second := w.Work(worker.Config{}, bind(c.is), flowtest.DoWork1, doLists, countStep)
				if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
					t.Fatal(err)
				}
				if c.twice { // without the second wait the run may have ended
					if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
						t.Fatal(err)
					}
				}
				if !c.blocked {
					if got := flowtest.Result(w, run); got != c.want {
						t.Errorf("got %q, want %q", got, c.want)
					}
					return
				}
				w.Status(run, workflow.StatusBlocked)
				second.Stop()
				w.Work(worker.Config{}, bind(c.was), flowtest.DoWork1, doLists)
				flowtest.Result(w, run)
			})
		})
	}
}

// wakeTwice is the code of the row "a time limit added later" before the change.
func wakeTwice(ctx workflow.Context) (string, error) {
	if err := wakeUp(ctx); err != nil {
		return "", err
	}
	return "", wakeUp(ctx)
}
