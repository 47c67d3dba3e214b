package event

import "strings"

// HookRun is the workflow name of the runs that hold tokens of the users' own for
// other runs.
const HookRun = "flowgen.hook"

// HookRunID is the workflow id of the run that holds a token: at most one is active.
func HookRunID(token string) string { return hookRunID + token }

// TokenOfRun returns the token that a run of this workflow id holds.
func TokenOfRun(workflowID string) string { return strings.TrimPrefix(workflowID, hookRunID) }

const hookRunID = "hook:"

// PermitRun is the workflow name of the runs that take permits for other runs, whose
// workflow ids are kept in other partitions than their limits.
const PermitRun = "flowgen.permit"

// ReadStep is the name of the step by which the code of a run reads from other runs.
const ReadStep = "flowgen.read"

// Internal reports whether runs of a workflow are none that a user has started: they
// hold tokens or permits, or execute steps for other runs.
func Internal(workflow string) bool {
	return workflow == HookRun || workflow == PermitRun || IsStepRun(workflow)
}

// StepRunPrefix begins the workflow names of the runs that execute steps for other runs.
const StepRunPrefix = "flowgen.step/"

// StepRun returns the workflow name of the runs that execute a step for other runs,
// on a queue of its own.
func StepRun(step string) string { return StepRunPrefix + step }

// KindOf returns the kind of the entity that an event creates, as people see it: a child that executes a step of this run is a step.
func KindOf(kind Entity, name string) Entity {
	if _, is := StepOfRun(name); is && kind == EntityChild {
		return EntityStep
	}
	return kind
}

// IsStepRun reports whether runs of a workflow execute a step for other runs.
func IsStepRun(workflow string) bool { return strings.HasPrefix(workflow, StepRunPrefix) }

// StepOfRun returns the step that runs of a workflow execute for other runs; false
// if it is an ordinary workflow.
func StepOfRun(workflow string) (step string, ok bool) {
	return strings.CutPrefix(workflow, StepRunPrefix)
}
