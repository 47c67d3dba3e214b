// Package sample has one mistake in a workflow, one in a helper, and one that is silenced.
package sample

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

func direct(ctx workflow.Context) (time.Time, error) {
	return time.Now(), workflow.Sleep(ctx, time.Hour)
}

func byHelper(workflow.Context) error {
	if late() {
		return nil
	}
	//flow:ignore clock it is only printed
	_ = time.Now()
	return nil
}

func late() bool { return time.Since(time.Unix(0, 0)) > 0 }

func forever(ctx workflow.Context) error {
	for {
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return err
		}
	}
}
