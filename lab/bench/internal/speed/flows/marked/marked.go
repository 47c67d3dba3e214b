// Package marked is a workflow of steps that can be told apart.
package marked

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Probe sees the steps of a run go by.
type Probe struct {
	// Seen is called when step n of a run executes; nil: it is not looked at.
	Seen func(n int)
}

// long executes steps one after the other.
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

// mark does nothing, and tells when it is executed.
//
//flow:step
func (p *Probe) mark(_ context.Context, n int, data string) (string, error) {
	if p.Seen != nil {
		p.Seen(n)
	}
	return data, nil
}
