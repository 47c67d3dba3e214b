// Package batch works on many items, some at a time, and says which of them failed.
package batch

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step retries=2
func convert(ctx context.Context, file string) (int, error) { return len(file), ctx.Err() }

// Result sums up a batch.
type Result struct {
	Bytes  int
	Failed map[string]string
}

// convertAll goes on when a file fails.
//
//flow:workflow
func convertAll(ctx workflow.Context, files []string) (Result, error) {
	result := Result{Failed: make(map[string]string)}
	outcomes := workflow.MapSettled(ctx, files, Convert, workflow.Limit(10))
	for i, o := range outcomes {
		if o.Failed() {
			result.Failed[files[i]] = o.Err.Error()
			continue
		}
		result.Bytes += o.Value
	}
	if len(result.Failed) == len(files) && len(files) > 0 {
		var reasons []string
		for _, reason := range result.Failed {
			reasons = append(reasons, reason)
		}
		slices.Sort(reasons)
		return result, errors.New(strings.Join(slices.Compact(reasons), "; "))
	}
	return result, nil
}
