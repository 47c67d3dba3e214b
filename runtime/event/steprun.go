package event

import "strings"

// HookRun is the workflow name of runs that hold user-defined tokens for other runs.
const HookRun = "flowgen.hook"

// HookRunID returns the workflow ID of the run that holds a token. A store allows one active run
// per workflow ID, so one run holds the token.
func HookRunID(token string) string { return hookRunID + token }

// TokenOfRun returns the token that the run with the given workflow ID holds.
func TokenOfRun(workflowID string) string { return strings.TrimPrefix(workflowID, hookRunID) }

// ShownID returns a workflow ID for use in texts. The workflow ID of a run that holds a token
// contains the secret token, so ShownID removes it.
func ShownID(workflowID string) string {
	if strings.HasPrefix(workflowID, hookRunID) {
		return HookRunID("***")
	}
	return workflowID
}

const hookRunID = "hook:"

// PermitRun is the workflow name of runs that take permits for other runs. They are used if a run
// is in another partition than its limits because of its workflow ID.
const PermitRun = "flowgen.permit"

// ReadStep is the name of the step with which workflow code reads from other runs.
const ReadStep = "flowgen.read"

// BulkRun is the workflow name of runs that execute bulk actions.
const BulkRun = "flowgen.bulk"

// AlertRun is the workflow name of runs that deliver alerts. Their queue is AlertQueue followed by
// the name of the target, so only workers that have the target claim them.
const AlertRun = "flowgen.alert"

// AlertQueue is the prefix of the queues of runs that deliver alerts.
const AlertQueue = "flowgen.alerts."

// BulkRunID is the prefix of the workflow IDs of runs that execute bulk actions.
const BulkRunID = "bulk-"

// KeyRunID is the prefix of workflow IDs derived from idempotency keys.
const KeyRunID = "idem:"

// Internal reports whether the runs of a workflow belong to the runtime and not to users. Internal
// runs hold tokens or permits, execute steps for other runs, implement schedules or bulk actions,
// or deliver alerts. Every list, count and command uses this function.
func Internal(workflow string) bool {
	return Helper(workflow) || workflow == ScheduleRun || workflow == BulkRun || workflow == AlertRun
}

// RuntimeCode reports whether the runs of a workflow execute only code of the runtime: they are
// [Internal], and are not steps of users.
func RuntimeCode(workflow string) bool {
	if step, ok := StepOfRun(workflow); ok {
		return Reserved(step)
	}
	return Internal(workflow)
}

// Helper reports whether the runs of a workflow are [Internal] and serve their parent: they hold a
// token or permits for it, or execute a step.
func Helper(workflow string) bool {
	return workflow == HookRun || workflow == PermitRun || IsStepRun(workflow)
}

// Reserved reports whether the name of a workflow or topic belongs to the runtime. Clients cannot
// start such a workflow or send to such a topic.
func Reserved(name string) bool { return strings.HasPrefix(name, reserved) }

const reserved = "flowgen."

// ReservedID reports whether clients may not choose a workflow ID, because it belongs to an
// [Internal] run or is derived from an idempotency key.
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

// StepRun returns the workflow name of runs that execute the given step for other runs, on the
// queue of the step.
func StepRun(step string) string { return StepRunPrefix + step }

// KindOf returns the kind that users see for an entity. A child that executes a step of this run is
// a step.
func KindOf(kind Entity, name string) Entity {
	if _, is := StepOfRun(name); is && kind == EntityChild {
		return EntityStep
	}
	return kind
}

// IsStepRun reports whether the runs of a workflow execute a step for other runs.
func IsStepRun(workflow string) bool { return strings.HasPrefix(workflow, StepRunPrefix) }

// StepOfRun returns the step that the runs of a workflow execute for other runs. ok is false for
// any other workflow.
func StepOfRun(workflow string) (step string, ok bool) {
	return strings.CutPrefix(workflow, StepRunPrefix)
}
