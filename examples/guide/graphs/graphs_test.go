package graphs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/workflow/graph"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func shell(_ context.Context, command string) (string, error) {
	if command == "false" {
		return "", errors.New("it is false")
	}
	return strings.TrimPrefix(command, "echo "), nil
}

func setup(scan error) func(*workflowtest.Env) {
	return func(e *workflowtest.Env) {
		Register(e, shell, &Farm{
			Build: func(_ context.Context, version, platform string) (string, error) { return version + platform, nil },
			Scan:  func(context.Context, []Binary) (int, error) { return 3, scan },
		})
	}
}

func TestRelease_IsPublishedWithAScanOrWithout(t *testing.T) {
	for in, want := range map[ReleaseInput]string{
		{Version: "v1"}:               "v1: 2 binaries with 3 findings",
		{Version: "v1", Urgent: true}: "v1: 2 binaries",
	} {
		e := workflowtest.New(t)
		setup(nil)(e)
		if got, err := Release.Execute(e.Context(), e.Client(), in); got != want || err != nil {
			t.Errorf("%+v: %q, %v, want %q", in, got, err, want)
		}
	}
	e := workflowtest.New(t)
	setup(errors.New("no scanner"))(e)
	if got, err := Release.Execute(e.Context(), e.Client(), ReleaseInput{Version: "v2"}); got != "v2: 2 binaries" || err != nil {
		t.Errorf("without a scanner: %q, %v", got, err)
	}
	workflowtest.CrashEverywhere(t, Release, ReleaseInput{Version: "v1"}, setup(nil))
}

func TestPerform_ExecutesAPlan(t *testing.T) {
	e := workflowtest.New(t)
	setup(nil)(e)
	got, err := Perform.Execute(e.Context(), e.Client(), []Task{
		{ID: "link", Command: "echo linked", Needs: []string{"a", "b"}}, {ID: "a", Command: "echo A"}, {ID: "b", Command: "echo B"},
	})
	if diff := cmp.Diff(map[string]string{"link": "linked", "a": "A", "b": "B"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPerform_NamesAllFaultsOfAPlan(t *testing.T) {
	e := workflowtest.New(t)
	setup(nil)(e)
	_, err := Perform.Execute(e.Context(), e.Client(), []Task{
		{ID: "a", Needs: []string{"b"}}, {ID: "b", Needs: []string{"a", "c"}},
	})
	want := []graph.Fault{
		{Kind: graph.Unknown, Node: "b", Need: "c"},
		{Kind: graph.Cycle, Node: "a", Cycle: []string{"a", "b", "a"}},
	}
	if diff := cmp.Diff(want, Wrong(err)); diff != "" {
		t.Errorf("%v: faults (-want +got):\n%s", err, diff)
	}
	if faults := Wrong(errors.New("another one")); faults != nil {
		t.Errorf("got %v", faults)
	}
}
