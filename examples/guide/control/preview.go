package control

import "github.com/flowgen/flowgen/runtime/workflow"

// preview renders a scene on machines that the caller selects.
//
//flow:workflow
func preview(ctx workflow.Context, scene, queue string) (string, error) {
	return Render(workflow.WithStepOptions(ctx, workflow.Queue(queue)), scene)
}
