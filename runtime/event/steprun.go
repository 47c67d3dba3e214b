package event

import "strings"

// HookRun is the workflow name of the runs that hold tokens of the users' own for
// other runs.
const HookRun = "flowgen.hook"

// HookRunID is the workflow id of the run that holds a token: at most one is active.
func HookRunID(token string) string { return hookRunID + token }

// TokenOfRun returns the token that a run of this workflow id holds.
func TokenOfRun(workflowID string) string { return strings.TrimPrefix(workflowID, hookRunID) }

// ShownID returns a workflow id as it may stand in texts: without the token that a run of it holds.
func ShownID(workflowID string) string {
	if strings.HasPrefix(workflowID, hookRunID) {
		return HookRunID("***")
	}
	return workflowID
}

const hookRunID = "hook:"

// PermitRun is the workflow name of the runs that take permits for other runs, whose
// workflow ids are kept in other partitions than their limits.
const PermitRun = "flowgen.permit"

// ReadStep is the name of the step by which the code of a run reads from other runs.
const ReadStep = "flowgen.read"

// BulkRun is the workflow name of the runs that do the same with many runs.
const BulkRun = "flowgen.bulk"

// BulkRunID begins the workflow ids of these runs.
const BulkRunID = "bulk-"

// KeyRunID begins the workflow ids of runs that an idempotency key has given one.
const KeyRunID = "idem:"

// Internal reports whether the runs of a workflow are the runtime's own, and none that a user
// has started: they hold tokens or permits, execute steps for other runs, or are schedules or
// bulk actions. Every list, count and command decides by it.
func Internal(workflow string) bool {
	return Helper(workflow) || workflow == ScheduleRun || workflow == BulkRun
}

// Helper reports whether the runs of a workflow are [Internal] and belong to one other run,
// their parent, for which they hold a token or permits, or execute a step.
func Helper(workflow string) bool {
	return workflow == HookRun || workflow == PermitRun || IsStepRun(workflow)
}

// Reserved reports whether a name is one of the runtime's own, of a workflow or a topic: nobody
// outside starts the one or sends to the other.
func Reserved(name string) bool { return strings.HasPrefix(name, reserved) }

const reserved = "flowgen."

// ReservedID reports whether a workflow id may be that of an [Internal] run, or one that an
// idempotency key stands for.
func ReservedID(id string) bool {
	for _, prefix := range []string{ScheduleRunID(""), hookRunID, BulkRunID, KeyRunID} {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return false
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
