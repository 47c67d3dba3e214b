// Package poll asks a job until it is done, each time a little later.
package poll

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrNotYet says that a job is under way.
//
//flow:error
var ErrNotYet = errors.New("not yet")

//flow:step retries=0
func result(ctx context.Context, job string) (string, error) { return job, ctx.Err() }

func delay(n int) time.Duration {
	d := time.Second << min(n, 8)
	return max(time.Second, min(d, 5*time.Minute))
}

// wait has delays that grow, with a spread that replays repeat.
//
//flow:workflow
func wait(ctx workflow.Context, job string) (string, error) {
	for n := 0; ; n++ {
		text, err := Result(ctx, job)
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, ErrNotYet) {
			return "", err
		}
		spread := time.Duration(workflow.Rand(ctx).Int64N(int64(time.Second)))
		if err := workflow.Sleep(ctx, delay(n)+spread); err != nil {
			return "", err
		}
	}
}
