// Package family is a workflow that starts others and waits for them.
package family

import "github.com/flowgen/flowgen/runtime/workflow"

// parent starts children all at once and returns how many gave back their input.
//
//flow:workflow
func parent(ctx workflow.Context, children int, data string) (int, error) {
	items := make([]string, children)
	for i := range items {
		items[i] = data
	}
	results, err := workflow.Map(ctx, items, Child.Child)
	same := 0
	for i, r := range results {
		if r == items[i] {
			same++
		}
	}
	return same, err
}

// child does nothing: the figures are those of the engine around it.
//
//flow:workflow
func child(_ workflow.Context, data string) (string, error) { return data, nil }
