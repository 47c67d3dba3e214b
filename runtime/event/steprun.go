package event

import "strings"

// HookRun is the workflow name of runs that hold user-defined tokens for other runs.
const HookRun = "flowgen.hook"

// HookRunID returns the workflow ID of the run that holds a token; at most one is active.
func HookRunID(token string) string { return hookRunID + token }

// TokenOfRun returns the token that the run with this workflow ID holds.
func TokenOfRun(workflowID string) string { return strings.TrimPrefix(workflowID, hookRunID) }

// ShownID returns a workflow ID for use in texts: it removes the token from the ID of a run that
// holds one.
func ShownID(workflowID string) string {
	if strings.HasPrefix(workflowID, hookRunID) {
		return HookRunID("***")
	}
	return workflowID
}

const hookRunID = "hook:"

// PermitRun is the workflow name of runs that take permits for other runs, whose workflow IDs place
// them in other partitions than their limits.
const PermitRun = "flowgen.permit"

// ReadStep is the name of the step with which workflow code reads from other runs.
const ReadStep = "flowgen.read"

// BulkRun is the workflow name of runs that execute bulk actions.
const BulkRun = "flowgen.bulk"

// BulkRunID is the prefix of the workflow IDs of these runs.
const BulkRunID = "bulk-"

// KeyRunID is the prefix of workflow IDs derived from idempotency keys.
const KeyRunID = "idem:"

// Internal reports whether the runs of a workflow are internal to the runtime rather than started
// by users: they hold tokens or permits, execute steps for other runs, or implement schedules or
// bulk actions. Every list, count and command uses this function.
func Internal(workflow string) bool {
	return Helper(workflow) || workflow == ScheduleRun || workflow == BulkRun
}

// Helper reports whether the runs of a workflow are [Internal] and belong to their parent, for
// which they hold a token or permits, or execute a step.
func Helper(workflow string) bool {
	return workflow == HookRun || workflow == PermitRun || IsStepRun(workflow)
}

// Reserved reports whether the name of a workflow or topic belongs to the runtime: clients can
// neither start such a workflow nor send to such a topic.
func Reserved(name string) bool { return strings.HasPrefix(name, reserved) }

const reserved = "flowgen."

// ReservedID reports whether a workflow ID may belong to an [Internal] run, or is derived from an
// idempotency key.
func ReservedID(id string) bool {
	for _, prefix := range []string{ScheduleRunID(""), hookRunID, BulkRunID, KeyRunID} {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	return false
}

// StepRunPrefix is the prefix of the workflow names of runs that execute steps for other runs.
const StepRunPrefix = "flowgen.step/"

// StepRun returns the workflow name of runs that execute a step for other runs, on the step's own
// queue.
func StepRun(step string) string { return StepRunPrefix + step }

// KindOf returns the kind of the entity that an event creates, as shown to users: a child that
// executes a step of this run is a step.
func KindOf(kind Entity, name string) Entity {
	if _, is := StepOfRun(name); is && kind == EntityChild {
		return EntityStep
	}
	return kind
}

// IsStepRun reports whether runs of a workflow execute a step for other runs.
func IsStepRun(workflow string) bool { return strings.HasPrefix(workflow, StepRunPrefix) }

// StepOfRun returns the step that runs of a workflow execute for other runs, or false for an
// ordinary workflow.
func StepOfRun(workflow string) (step string, ok bool) {
	return strings.CutPrefix(workflow, StepRunPrefix)
}
