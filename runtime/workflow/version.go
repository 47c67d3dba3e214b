package workflow

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// VersionOption is an option of [Version].
type VersionOption func(*versionOptions)

type versionOptions struct{ min int }

// AtLeast declares that the code does not contain the versions below n: a run that follows one of
// them is blocked until a worker with such code claims it. Without this option the code contains
// all versions from 0.
func AtLeast(n int) VersionOption { return func(o *versionOptions) { o.min = n } }

// Version lets open runs finish with the old code after a change. It returns the version of the
// change that this run follows:
//
//	if workflow.Version(ctx, "fraud-check", 1) >= 1 {
//		… // the new way
//	} else {
//		… // the old way
//	}
//
// A run whose log passed this place before the call existed always follows version 0, which costs
// nothing. A run that gets here for the first time follows latest: one event records it, in the
// commit of the next events. The first call for a change decides for the whole run, including calls
// in loops and in other branches; a later change at the same place increments latest.
//
// When no run of an old version is left, the old code can be removed: the call stays, with
// [AtLeast], as long as there are runs that have recorded the version. A run that follows a version
// that the code does not contain, because it is too old or the code was rolled back, is blocked.
// Version panics if latest is less than 1, or less than the argument of AtLeast.
func Version(ctx Context, change string, latest int, opts ...VersionOption) int {
	b := ctx.branch()
	var o versionOptions
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case change == "":
		panic(&replay.MisuseError{Text: "workflow: Version: the name of the change is empty"})
	case latest < 1 || o.min < 0 || o.min > latest:
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: Version(%q, %d) with AtLeast(%d): "+
			"the latest version is 1 or more, and not less than the oldest one", change, latest, o.min)})
	}
	return b.Version(change, o.min, latest)
}
