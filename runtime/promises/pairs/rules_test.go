package pairs_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// outcome is the result of a command that the rules determine.
type outcome struct {
	Answer string // done, the code of a problem, or waits
	Effect effect
}

// effect is the state that must be observable after a command, and after all runs have ended.
type effect string

// The effects.
const (
	unchanged  effect = "unchanged"  // the run continues and ends as it would without the command
	canceled   effect = "cancelled"  // the run ends as canceled; its code is not executed if it had not begun
	terminated effect = "terminated" // the run has ended when the command is answered
	paused     effect = "paused"     // the run begins no operation before it is resumed; then it is unchanged
	resumed    effect = "resumed"    // the run is not paused or delayed, and otherwise unchanged
	reran      effect = "rerun"      // a new run is created and completes; the old run does not change
	found      effect = "found"      // the answer is the run itself or its existing rerun
	started    effect = "started"    // a new run with the same workflow ID is created and completes
	deleted    effect = "deleted"    // the run does not exist
)

var (
	does    = func(e effect) outcome { return outcome{done, e} }
	refuses = outcome{admin.CodeRefused, unchanged}
	missing = outcome{admin.CodeNotFound, unchanged}
)

// A rule determines the results of some commands in some states. id names the rule in violations.
type rule struct {
	id      string
	decides func(f *facts, verb string) (outcome, bool)
}

// rules contains all rules. Each rule applies independently of the others. At least one rule
// applies to each cell.
var rules = append(slices.Concat(callRules, buildRules), []rule{
	{"control", func(_ *facts, verb string) (outcome, bool) { return does(unchanged), verb == verbNothing }},
	// R5: A run in every open state accepts items.
	{"R5", func(f *facts, verb string) (outcome, bool) {
		return does(unchanged), verb == verbSend && f.open() && !f.Kind.own() && !f.Gone
	}},
	// R1: A run that was not asked to cancel can be paused, whatever it waits for.
	{"R1", func(f *facts, verb string) (outcome, bool) {
		if verb != "pause" || !f.going() || f.Asked {
			return outcome{}, false
		}
		if f.Paused {
			return does(unchanged), true
		}
		return does(paused), true
	}},
	// R7: A run in every open state accepts a cancel. After a cancel it refuses a pause.
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
	// R8: Terminate ends a run in every open state.
	{"R8", func(f *facts, verb string) (outcome, bool) { return does(terminated), verb == "terminate" && f.going() }},
	// R9: A command that is repeated after it had its effect succeeds.
	{"R9", func(f *facts, verb string) (outcome, bool) {
		switch {
		case f.Kind.own() || f.Gone:
			return outcome{}, false
		case f.open():
			return f.again(verb)
		case f.Status == event.StatusContinued && f.Last.Place != store.StateEnded && in(verb, "cancel", "terminate", "pause", "resume", "release", verbSend):
			return does(unchanged), true // the command applies to the last run of the chain
		case f.Status == event.StatusContinued && verb == "cancel" && f.Last.Asked && !f.Terminated:
			return does(unchanged), true
		case verb == "cancel" && f.Asked && !f.Terminated, verb == "terminate" && f.Terminated:
			return does(unchanged), true
		case in(verb, "cancel", "terminate", "pause", "resume", "step", "release", verbSend):
			return refuses, true
		}
		return outcome{}, false
	}},
	// R11: A rerun is one new run without a parent.
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
	// R14: Internal runs refuse commands. Their data can be deleted after their end, as that of all
	// runs.
	{"R14", func(f *facts, verb string) (outcome, bool) {
		return refuses, f.Kind.own() && !f.Gone && (verb != verbDelete || f.open()) && (in(verb, admin.Actions()...) || verb == verbSend || verb == verbAsk)
	}},
	// R20: A singleton has one active run, however its runs are started.
	{"R20", func(f *facts, verb string) (outcome, bool) {
		return refuses, f.Singleton && f.open() && in(verb, "restart", "fork")
	}},
	// R25: Delete applies to runs that have ended. A deleted run is not found anywhere.
	{"R25", func(f *facts, verb string) (outcome, bool) {
		switch {
		case f.Gone && (in(verb, admin.Actions()...) || verb == verbSend || verb == verbAsk):
			return missing, true
		case verb != verbDelete || f.Kind.own() && f.open():
			return outcome{}, false
		}
		return when(f.open(), refuses, does(deleted)), true
	}},
	// RUN2: A workflow ID has one active run.
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

// going reports whether the run is a user's run that has not ended.
func (f *facts) going() bool { return f.open() && !f.Kind.own() && !f.Gone }

// gated reports whether a run in debug mode is stopped between two operations. A resume ends the
// debug mode of such a run.
func (f *facts) gated() bool { return f.Debug && f.Status == event.StatusPaused }

// again determines the results of commands that end a state of an open run. They have no effect on
// a run that is not in this state.
func (f *facts) again(verb string) (outcome, bool) {
	switch verb {
	case "resume":
		return when(f.Paused || f.gated() || f.Delayed, does(resumed), does(unchanged)), true
	case "step":
		return when(f.Debug, does(unchanged), refuses), true
	case "release":
		return when(f.Status == event.StatusHeld, does(unchanged), refuses), true // unchanged, because the scenes of held runs also release them
	}
	return outcome{}, false
}

// forbids reports whether a restart or fork is refused because another run is active for the
// workflow ID. If the step of a fork does not exist, this is reported first.
func (f *facts) forbids(verb string) bool {
	return f.Taken && !f.Gone && (verb == "restart" || verb == "fork" && f.Step)
}

// reruns determines the results of retry and resume-new. fits reports whether the run has ended in
// the way that the command requires.
func (f *facts) reruns(fits bool) (outcome, bool) {
	switch {
	case !fits:
		return refuses, true
	case f.Rerun != "" && f.Rerun != event.StatusFailed: // a failed rerun is retried, and a deleted one is replaced
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

// inBulk returns the result of a bulk action on a run, given the result of the same command alone.
// By rule R18, a bulk action includes the runs that the command would change, and refuses the
// others with a reason.
func inBulk(f *facts, verb string, alone outcome) outcome {
	goesOn := verb == "step" && f.Debug || verb == "release" && f.Status == event.StatusHeld // effects that the rules call unchanged only because the scenes also cause them
	if alone == missing && !f.Gone || alone == does(found) || alone == does(unchanged) && !goesOn {
		return refuses
	}
	return alone
}

// expect returns the result of a command in a state, and the IDs of the rules that determine it. It
// returns an error if no rule applies, or if two rules determine different results.
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
