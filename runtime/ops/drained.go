package ops

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Drained reports whether a build can be removed.
type Drained struct {
	Build  string
	Answer DrainedAnswer
	// Reason describes why the answer is not DrainedYes. It is empty if it is.
	Reason string
	// Workers is the number of live workers of the build, and Claims reports whether one of them
	// claims runs.
	Workers int
	Claims  bool
	// Needs is the number of open runs that need the build. Unsure is the number of open runs that
	// may need it. Runs contains some of both, at most 20, those that need it first.
	Needs, Unsure int
	Runs          []NeedingRun
	Read          int // number of open runs that were read
}

// NeedingRun is a run that needs a build, or may need it.
type NeedingRun struct {
	Run      workflow.RunID
	Workflow string
	Queue    string
	Status   workflow.Status
	Reason   string
	Unsure   bool // whether it is not known that the run needs the build
}

// DrainedAnswer is the result of [Client.Drained].
type DrainedAnswer string

// Results of Client.Drained.
const (
	DrainedYes     DrainedAnswer = "drained" // the build takes no new work, and no open run needs it
	DrainedNo      DrainedAnswer = "needed"  // the build takes new work, or open runs need it
	DrainedUnknown DrainedAnswer = "unknown" // open runs may need the build, or not all of them were read
)

const (
	// drainedBudget is the number of open runs that Drained reads.
	drainedBudget = 200_000
	// shownNeeds is the maximum number of runs in Drained.
	shownNeeds = 20
)

// Drained reports whether the workers of a build can be removed: no worker of the build claims runs,
// and no open run needs the build. The workers of a build claim no runs if there are none, or if the
// build is retired and they have noticed it. While an expired session of the build was not recovered,
// the answer is at most DrainedUnknown, because its worker may be slow and return.
//
// An open run needs the build if the build has executed it last, because only the code of that build
// is known to fit the log of the run. It also needs the build if a worker of the build owns it, if it
// is pinned to the build and no other build has executed it, or if no other live build serves its
// queue and workflow. A run may need the build if it is blocked, if the build that has executed it
// last has no live worker that serves it, if that build is not known, or if no live worker serves
// it. Runs that have not begun need no build. The code of internal runs is a part of flowgen, so they
// need a worker that serves them, but no particular build. Runs that have ended are not read: a retry
// or fork of such a run continues its log with the code of another build, and is blocked if that does
// not fit.
//
// Drained reads the logs of at most 200,000 open runs. If there are more, the answer is
// DrainedUnknown or DrainedNo. The error is an *[UnknownBuildError] if the build has no live workers,
// is not recorded and is needed by no run. It matches workflow.ErrNotSupported if the store keeps no
// entries or cannot be searched.
func (c *Client) Drained(ctx context.Context, build string) (Drained, error) {
	const what = "check whether a build is drained"
	b, err := c.builds(ctx, what)
	if err != nil {
		return Drained{}, err
	}
	d := Drained{Build: build}
	seen := b.check(build) == nil
	var unsure []NeedingRun
	var whole bool
	d.Read, whole, err = c.eachOpen(ctx, drainedBudget, func(r *openRun) error {
		seen = seen || r.pin == build || r.build == build
		why, certain := b.needs(r, build)
		if why != "" && !certain && r.Status == event.StatusBlocked && len(unsure) < shownNeeds {
			info, err := c.blockedInfo(ctx, r)
			if err != nil {
				return err
			}
			if m := info.Mismatch; m != nil && m.Here == build {
				return nil // the code of the build does not fit the log
			}
		}
		need := NeedingRun{Run: r.Run, Workflow: r.Route.Workflow, Queue: r.plain.Queue, Status: r.Status, Reason: why, Unsure: !certain}
		switch {
		case why == "":
		case certain:
			if d.Needs++; len(d.Runs) < shownNeeds {
				d.Runs = append(d.Runs, need)
			}
		default:
			if d.Unsure++; len(unsure) < shownNeeds {
				unsure = append(unsure, need)
			}
		}
		return nil
	})
	if err != nil {
		return Drained{}, fmt.Errorf("%s: %w", what, err)
	}
	if !seen {
		return Drained{}, fmt.Errorf("%s: %w", what, b.check(build))
	}
	d.Runs = append(d.Runs, unsure[:min(len(unsure), shownNeeds-len(d.Runs))]...)
	again, err := c.builds(ctx, what) // a worker of the build may have started meanwhile
	if err != nil {
		return Drained{}, err
	}
	d.conclude(b, again, whole)
	return d, nil
}

// conclude sets the answer and its reason. before and after are the states of the builds before and
// after the runs were read.
func (d *Drained) conclude(before, after *builds, whole bool) {
	d.Workers, d.Claims = len(after.workers[d.Build]), before.claims[d.Build] || after.claims[d.Build]
	recorded := after.state.Build(d.Build) != nil
	switch {
	case d.Claims && after.state.Retired(d.Build):
		d.Answer, d.Reason = DrainedNo, number(d.Workers, "worker of the retired build claims runs", "workers of the retired build claim runs")+": they stop within seconds, except for workflows that no other build serves"
	case d.Claims:
		d.Answer, d.Reason = DrainedNo, number(d.Workers, "worker of the build claims runs", "workers of the build claim runs")+": retire the build or stop them"
	case d.Needs > 0:
		d.Answer, d.Reason = DrainedNo, number(d.Needs, "open run needs the build", "open runs need the build")
	case !whole:
		d.Answer, d.Reason = DrainedUnknown, fmt.Sprintf("there are more open runs than the %d that were read", d.Read)
	case d.Unsure > 0:
		d.Answer, d.Reason = DrainedUnknown, number(d.Unsure, "open run may need the build", "open runs may need the build")
	case before.lapsed[d.Build] || after.lapsed[d.Build]:
		d.Answer, d.Reason = DrainedUnknown, "a session of a worker of the build has expired, and the worker may return until a worker of another build has recovered its runs"
	case !recorded && d.Read > 0:
		d.Answer, d.Reason = DrainedUnknown, "the workers of the build belong to a release that does not record which runs they execute"
	default:
		d.Answer = DrainedYes
	}
}

// needs returns why a run needs a build, and whether that is certain. It returns "" if the run does
// not need it.
func (b *builds) needs(r *openRun, build string) (why string, certain bool) {
	others := 0
	for other := range b.serves[r.plain] {
		if other != build && !b.state.Retired(other) {
			others++
		}
	}
	switch {
	case r.Owner != "" && b.owners[r.Owner] == build:
		return "a worker of the build executes it", true
	case others == 0 && b.serves[r.plain][build]:
		return "no other live build serves its queue and workflow", true
	case event.Internal(r.Route.Workflow):
		return "", false
	case r.err != nil:
		return fmt.Sprintf("its log cannot be read: %v", r.err), false
	case r.build == build:
		return "the build has executed it last", true
	case r.pin == build && r.build == "":
		return "it is pinned to the build", true
	case others == 0:
		return "no live worker serves its queue and workflow", false
	case !r.begun:
		return "", false
	case r.build == "":
		return "the build that has executed it is not recorded", false
	case !b.serves[r.plain][r.build] || b.state.Retired(r.build):
		return fmt.Sprintf("build %s has executed it last and has no live worker that serves it", r.build), false
	case r.Status == event.StatusBlocked:
		return "it is blocked", false
	}
	return "", false
}

// number returns n followed by the text for one or for several.
func number(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
