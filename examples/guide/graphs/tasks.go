package graphs

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

// Task is a part of a plan that a user has written.
type Task struct {
	ID      string   `json:"id"`
	Command string   `json:"command"`
	Needs   []string `json:"needs"`
}

// Shell executes commands.
type Shell func(ctx context.Context, command string) (output string, err error)

//flow:step retries=0
func (s Shell) execute(ctx context.Context, command string) (string, error) { return s(ctx, command) }

// perform executes each task of a plan after the tasks that it depends on.
//
//flow:workflow
func perform(ctx workflow.Context, plan []Task) (map[string]string, error) {
	g := graph.New(graph.FinishOthers())
	for _, task := range plan {
		var needs []graph.Dependency
		for _, id := range task.Needs {
			needs = append(needs, graph.NodeOf[string](g, id)) // The node may be added later.
		}
		graph.AddNode(g, task.ID, func(ctx workflow.Context) (string, error) {
			return Execute(ctx, task.Command)
		}, needs...)
	}
	if err := g.Run(ctx); err != nil {
		return nil, err
	}
	outputs := map[string]string{}
	for _, task := range plan {
		outputs[task.ID] = graph.NodeOf[string](g, task.ID).Value()
	}
	return outputs, nil
}

// Wrong returns the faults of a plan that is not a valid graph. For other errors it returns nil.
func Wrong(err error) []graph.Fault {
	if faulty, ok := errors.AsType[*graph.Error](err); ok {
		return faulty.Faults // Faults contains all faults. A cycle is reported with the IDs of its tasks.
	}
	return nil
}
