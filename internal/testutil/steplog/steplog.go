// Package steplog counts the attempts of steps, for tests that kill the processes of a run. A step of the
// examples records each of its executions in a file, which the tests compare with the log of the run.
package steplog

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Attempts contains the numbers of attempts in the log of a run, by the name of the step.
type Attempts struct {
	Began, Completed map[string]int
	// Returned counts the attempts whose code has returned a result or an error. An attempt that has begun
	// is not executed if the lease of its process has expired meanwhile, or if the process stops.
	Returned map[string]int
	Events   uint64 // length of the log
}

// Read returns the attempts in the present log of a run.
func Read(t *testing.T, c *workflow.Client, run workflow.RunID) Attempts {
	t.Helper()
	info, err := c.Run(run).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := Attempts{Began: map[string]int{}, Completed: map[string]int{}, Returned: map[string]int{}, Events: info.Events}
	names := map[uint64]string{}
	for e, err := range c.Run(run).Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case event.StepCreated:
			names[e.Seq] = e.Name
		case event.StepStarted:
			a.Began[names[e.Ref]]++
		case event.StepCompleted:
			a.Completed[names[e.Ref]]++
			a.Returned[names[e.Ref]]++
		case event.StepRetrying, event.StepFailed:
			if e.Failure != nil && e.Failure.Code == event.CodeError {
				a.Returned[names[e.Ref]]++
			}
		}
		if e.Seq == info.Events {
			break
		}
	}
	return a
}

// Executions returns the numbers of lines of a file, by the word before the first space, which is the
// name of a step. Without a file there are none.
func Executions(t *testing.T, path string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		name, _, _ := strings.Cut(line, " ")
		n[name]++
	}
	return n
}
