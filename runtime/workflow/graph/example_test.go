package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/examples/guide/graphs"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

// Perform builds a graph from its input, see examples/guide/graphs. If the plan is invalid, it
// returns an error that lists all faults.
func ExampleGraph() {
	ctx, stop := context.WithCancel(context.Background())
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	graphs.Register(w, func(_ context.Context, command string) (string, error) { return strings.ToUpper(command), nil }, &graphs.Farm{})
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()

	outputs, err := graphs.Perform.Execute(ctx, client, []graphs.Task{
		{ID: "link", Command: "link", Needs: []string{"a", "b"}}, {ID: "a", Command: "compile a"}, {ID: "b", Command: "compile b"},
	})
	fmt.Println(outputs, err)

	_, err = graphs.Perform.Execute(ctx, client, []graphs.Task{{ID: "a", Needs: []string{"b"}}, {ID: "b", Needs: []string{"a"}}})
	if faulty, ok := errors.AsType[*graph.Error](err); ok {
		fmt.Println(faulty.Faults[0].Cycle)
	}

	stop()
	if err := errors.Join(<-done, client.Close()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// map[a:COMPILE A b:COMPILE B link:LINK] <nil>
	// [a b a]
}
