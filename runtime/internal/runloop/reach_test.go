package runloop_test

import (
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
)

// classes are the rare states of a run that the random inputs must reach.
var classes = []string{
	"a pending step has timed out",
	"an attempt with an open hook has timed out",
	"the inbox was closed",
	"an ask was answered",
	"an ask was refused",
	"a run has waited for permits",
	"a run over its limit was canceled",
	"a run over its limit has failed before it began",
	"a log has reached its bound",
	"a log has reached its last bound",
	"a run has begun too late",
	"a run was terminated",
	"an unserved run was given back",
	"an unserved run was ended",
	"a log was read in portions",
}

// reached counts how often each class was reached.
type reached map[string]int

// total is the sum over all runs of the tests.
var total = reached{}

func (r reached) count(class string) { r[class]++ }

func (r reached) add(of reached) {
	for class, n := range of {
		r[class] += n
	}
}

func (r reached) check(t *testing.T) {
	t.Helper()
	for _, class := range classes {
		if r[class] == 0 {
			t.Errorf("no random input has reached this state: %s", class)
		}
	}
}

// log counts the classes of the last n events of a log.
func (r reached) log(events []event.Event, n int) {
	for i := len(events) - n; i < len(events); i++ {
		if class := classOf(events[:i], &events[i]); class != "" {
			r.count(class)
		}
	}
}

// classOf returns the class of an event, or an empty string. before contains the events before it.
func classOf(before []event.Event, e *event.Event) string {
	if e.Type == event.ResourceWait {
		return "a run has waited for permits"
	}
	if e.Failure == nil {
		return ""
	}
	switch code := e.Failure.Code; e.Type {
	case event.StepFailed, event.StepRetrying:
		if code == event.CodeTimeout && lastOf(before, e.Ref) == event.StepPending {
			return "a pending step has timed out"
		}
	case event.CancelRequested:
		switch code {
		case event.CodeOverLimit:
			return "a run over its limit was canceled"
		case event.CodeLogLimit:
			return "a log has reached its bound"
		}
	case event.RunFailed:
		begun := slices.ContainsFunc(before, func(e event.Event) bool { return e.Type == event.RunStarted })
		switch {
		case code == event.CodeOverLimit && !begun:
			return "a run over its limit has failed before it began"
		case code == event.CodeLogLimit && e.By != "":
			return "a log has reached its last bound"
		case code == event.CodeNotStarted:
			return "a run has begun too late"
		}
	case event.RunCanceled:
		if code == event.CodeTerminated {
			return "a run was terminated"
		}
	}
	return ""
}

// lastOf returns the type of the last event of a step.
func lastOf(events []event.Event, ref uint64) event.Type {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Ref == ref {
			return events[i].Type
		}
	}
	return 0
}
