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

// internal reports whether runs of a workflow are none that a user has asked for.
func internal(workflow string) bool {
	_, step := StepOfRun(workflow)
	return step || workflow == HookRun
}

const stepRun = "flowgen.step/"

// StepRun returns the workflow name of the runs that execute a step for other runs,
// on a queue of its own.
func StepRun(step string) string { return stepRun + step }

// StepOfRun returns the step that runs of a workflow execute for other runs; false
// if it is an ordinary workflow.
func StepOfRun(workflow string) (step string, ok bool) { return strings.CutPrefix(workflow, stepRun) }
