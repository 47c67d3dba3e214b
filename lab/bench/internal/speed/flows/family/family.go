// Package family contains a workflow that starts children and waits for them.
package family

import "github.com/flowgen/flowgen/runtime/workflow"

// parent starts children in parallel and returns the number of children that returned their input.
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

// child returns its input, so that only the engine is measured.
//
//flow:workflow
func child(_ workflow.Context, data string) (string, error) { return data, nil }
