// Package asleep contains a workflow that sleeps.
package asleep

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// sleeper sleeps until a given time.
//
//flow:workflow
func sleeper(ctx workflow.Context, until time.Time, data string) (string, error) {
	if err := workflow.SleepUntil(ctx, until); err != nil {
		return "", err
	}
	if now := workflow.Now(ctx); now.Before(until) {
		return "", fmt.Errorf("woken at %v, before %v", now, until)
	}
	return data, nil
}
