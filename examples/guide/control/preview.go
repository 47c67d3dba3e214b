package control

import "github.com/flowgen/flowgen/runtime/workflow"

// preview draws a scene on machines of the caller's choice.
//
//flow:workflow
func preview(ctx workflow.Context, scene, queue string) (string, error) {
	return Render(workflow.WithStepOptions(ctx, workflow.Queue(queue)), scene)
}
