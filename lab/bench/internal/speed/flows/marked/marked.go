// Package marked contains a workflow whose steps notify a probe.
package marked

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Probe observes the steps of a run.
type Probe struct {
	// Seen is called when step n of a run executes. It may be nil.
	Seen func(n int)
}

// long executes steps in sequence.
//
//flow:workflow
func long(ctx workflow.Context, steps int, data string) (string, error) {
	var err error
	for n := range steps {
		if data, err = Mark(ctx, n, data); err != nil {
			return "", err
		}
	}
	return data, nil
}

// mark notifies the probe and returns data.
//
//flow:step
func (p *Probe) mark(_ context.Context, n int, data string) (string, error) {
	if p.Seen != nil {
		p.Seen(n)
	}
	return data, nil
}
