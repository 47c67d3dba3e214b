package event

import "strings"

const stepRun = "flowgen.step/"

// StepRun returns the workflow name of the runs that execute a step for other runs,
// on a queue of its own.
func StepRun(step string) string { return stepRun + step }

// StepOfRun returns the step that runs of a workflow execute for other runs; false
// if it is an ordinary workflow.
func StepOfRun(workflow string) (step string, ok bool) { return strings.CutPrefix(workflow, stepRun) }
