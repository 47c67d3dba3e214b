// Package stock reserves goods in several warehouses.
package stock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Want is what somebody wants.
type Want struct {
	Item string
	N    int
}

//flow:step
func available(ctx context.Context, warehouse, item string) (int, error) { return len(item), ctx.Err() }

//flow:step
func take(ctx context.Context, warehouse string, want Want) error { return ctx.Err() }

// best returns where most is left; ties go to the first by name.
func best(left map[string]int) string {
	names := make([]string, 0, len(left))
	for name := range left {
		names = append(names, name)
	}
	sort.Strings(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(left[b], left[a]) })
	return names[0]
}

// reserve asks all warehouses at once.
//
//flow:workflow
func reserve(ctx workflow.Context, want Want, warehouses []string) (string, error) {
	counts, err := workflow.Map(ctx, warehouses, func(ctx workflow.Context, warehouse string) (int, error) {
		return Available(ctx, warehouse, want.Item)
	}, workflow.Limit(4))
	if err != nil {
		return "", err
	}
	left := make(map[string]int)
	for i, n := range counts {
		left[warehouses[i]] = n
	}
	warehouse := best(left)
	if left[warehouse] < want.N {
		return "", fmt.Errorf("there are not %d of %s anywhere", want.N, want.Item)
	}
	return warehouse, Take(ctx, warehouse, want)
}
