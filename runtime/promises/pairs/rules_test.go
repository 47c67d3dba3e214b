package pairs_test

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// outcome is the predicted result of a command.
type outcome struct {
	Answer string // done, or the code of the problem
	Effect effect
}

// effect is the state that must be observed after a command, including after everything has ended.
type effect string

// The effects.
const (
	unchanged  effect = "unchanged"  // the run continues and ends as without the command
	canceled   effect = "cancelled"  // it ends canceled; without its code if it has not begun
	terminated effect = "terminated" // it has ended when the command returns
	paused     effect = "paused"     // it starts nothing until it is resumed, then continues as without the command
	resumed    effect = "resumed"    // it is not paused, or its delay is over, and it continues as without the command
	reran      effect = "rerun"      // a new run exists and completes; the old one does not change
	found      effect = "found"      // the answer is the run itself, or its existing rerun
	started    effect = "started"    // a new run with its workflow ID exists and completes
	deleted    effect = "deleted"    // it does not exist any more
)

var (
	does    = func(e effect) outcome { return outcome{done, e} }
	refuses = outcome{admin.CodeRefused, unchanged}
	missing = outcome{admin.CodeNotFound, unchanged}
)

// A rule determines the results of commands in some states. Its ID is the ID in the document of the
// oracle.
type rule struct {
	id      string
	decides func(f *facts, verb string) (outcome, bool)
}

// rules contains all rules. Each applies independently, and at least one applies to each cell.
var rules = append(callRules, []rule{
	{"control", func(_ *facts, verb string) (outcome, bool) { return does(unchanged), verb == verbNothing }},
	// R5: every open state accepts items.
	{"R5", func(f *facts, verb string) (outcome, bool) {
		return does(unchanged), verb == verbSend && f.open() && !f.Kind.own() && !f.Gone
	}},
	// R1: a run that has not been asked to cancel can be paused, whatever it waits for.
	{"R1", func(f *facts, verb string) (outcome, bool) {
		if verb != "pause" || !f.going() || f.Asked {
			return outcome{}, false
		}
		if f.Paused {
			return does(unchanged), true
		}
		return does(paused), true
	}},
	// R7: every open state accepts cancel, after which pause is refused.
	{"R7", func(f *facts, verb string) (outcome, bool) {
		switch {
		case !f.going():
			return outcome{}, false
		case verb == "cancel":
			return does(canceled), true
		case verb == "pause" && f.Asked:
			return refuses, true
		}
		return outcome{}, false
	}},
	// R8: terminate ends every open state.
	{"R8", func(f *facts, verb string) (outcome, bool) { return does(terminated), verb == "terminate" && f.going() }},
	// R9: repeating a command that had its effect succeeds.
	{"R9", func(f *facts, verb string) (outcome, bool) {
		switch {
		case f.Kind.own() || f.Gone:
			return outcome{}, false
		case f.open():
			return f.again(verb)
		case f.Status == event.StatusContinued && f.Last.Place != store.StateEnded && in(verb, "cancel", "terminate", "pause", "resume", "release", verbSend):
			return does(unchanged), true // it applies to the last run of the chain
		case f.Status == event.StatusContinued && verb == "cancel" && f.Last.Asked && !f.Terminated:
			return does(unchanged), true
		case verb == "cancel" && f.Asked && !f.Terminated, verb == "terminate" && f.Terminated:
			return does(unchanged), true
		case in(verb, "cancel", "terminate", "pause", "resume", "step", "release", verbSend):
			return refuses, true
		}
		return outcome{}, false
	}},
	// R11: a rerun is one new root.
	{"R11", func(f *facts, verb string) (outcome, bool) {
		if f.Kind.own() || f.Gone || f.Singleton && f.open() && in(verb, "restart", "fork") || f.forbids(verb) {
			return outcome{}, false
		}
		switch verb {
		case "retry":
			return f.reruns(f.Status == event.StatusFailed && !f.open())
		case "resume-new":
			return f.reruns(f.Status == event.StatusCanceled && !f.open())
		case "restart":
			return when(!f.Collecting, does(reran), refuses), true
		case "fork":
			return when(f.Step, does(reran), missing), true
		}
		return outcome{}, false
	}},
	// R14: internal runs refuse commands.
	{"R14", func(f *facts, verb string) (outcome, bool) {
		return refuses, f.Kind.own() && !f.Gone && (in(verb, admin.Actions()...) || verb == verbSend || verb == verbAsk)
	}},
	// R20: a singleton has one active run, however it is started.
	{"R20", func(f *facts, verb string) (outcome, bool) {
		return refuses, f.Singleton && f.open() && in(verb, "restart", "fork")
	}},
	// R25: delete applies to runs that have ended, and hides them everywhere.
	{"R25", func(f *facts, verb string) (outcome, bool) {
		switch {
		case f.Gone && (in(verb, admin.Actions()...) || verb == verbSend || verb == verbAsk):
			return missing, true
		case verb != verbDelete || f.Kind.own():
			return outcome{}, false
		}
		return when(f.open(), refuses, does(deleted)), true
	}},
	// RUN2: one run of a workflow ID is active.
	{"RUN2", func(f *facts, verb string) (outcome, bool) {
		if f.forbids(verb) {
			return refuses, true
		}
		active := (f.open() || f.Status == event.StatusContinued) && !f.Gone
		switch verb {
		case verbUse:
			return when(active, does(found), does(started)), true
		case verbFail:
			return when(active, refuses, does(started)), true
		case verbReject:
			switch {
			case active:
				return does(found), true
			case f.Gone:
				return does(started), true
			}
			return refuses, true
		}
		return outcome{}, false
	}},
}...)

const verbDelete = "delete"

// going reports whether a user's run has not ended.
func (f *facts) going() bool { return f.open() && !f.Kind.own() && !f.Gone }

// gated reports whether a run in debug mode is stopped between two operations, so that a resume
// lets it continue freely.
func (f *facts) gated() bool { return f.Debug && f.Status == event.StatusPaused }

// again applies to the commands for open runs that end a state, and have no effect without that
// state.
func (f *facts) again(verb string) (outcome, bool) {
	switch verb {
	case "resume":
		return when(f.Paused || f.gated() || f.Delayed, does(resumed), does(unchanged)), true
	case "step":
		return when(f.Debug, does(unchanged), refuses), true
	case "release":
		return when(f.Status == event.StatusHeld, does(unchanged), refuses), true // the scenes of held runs release them at the end
	}
	return outcome{}, false
}

// forbids reports whether the active run of the workflow ID prevents a rerun. The absence of the
// step to fork from is detected earlier.
func (f *facts) forbids(verb string) bool {
	return f.Taken && !f.Gone && (verb == "restart" || verb == "fork" && f.Step)
}

// reruns applies to retry and resume-new, which continue a run that has ended in the matching way.
func (f *facts) reruns(fits bool) (outcome, bool) {
	switch {
	case !fits:
		return refuses, true
	case f.Rerun != "" && f.Rerun != event.StatusFailed: // a failed rerun is retried, a deleted one is made again
		return does(found), true
	case f.Undone || f.Taken:
		return refuses, true
	}
	return does(reran), true
}

func when(cond bool, yes, no outcome) outcome {
	if cond {
		return yes
	}
	return no
}

func in(s string, list ...string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// inBulk derives the result of a bulk action for one run from the result of the command alone. A
// bulk action takes the runs that the command would change, and refuses all others with the reason:
// R18.
func inBulk(f *facts, verb string, alone outcome) outcome {
	goesOn := verb == "step" && f.Debug || verb == "release" && f.Status == event.StatusHeld // the scenes do this at the end as well
	if alone == missing && !f.Gone || alone == does(found) || alone == does(unchanged) && !goesOn {
		return refuses
	}
	return alone
}

// expect returns the result of a command in a state, and the rules that determine it. It returns an
// error if no rule applies, or if two rules differ.
func expect(f *facts, verb string) (o outcome, by string, err error) {
	var ids []string
	for _, r := range rules {
		got, ok := r.decides(f, verb)
		switch {
		case !ok:
			continue
		case len(ids) > 0 && got != o:
			return o, by, fmt.Errorf("%s decides %+v, %s decides %+v", strings.Join(ids, ", "), o, r.id, got)
		}
		o, ids = got, append(ids, r.id)
	}
	if len(ids) == 0 {
		return o, "", fmt.Errorf("no rule decides")
	}
	return o, strings.Join(ids, ", "), nil
}
