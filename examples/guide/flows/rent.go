package flows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Fleet records the machines that are in use.
type Fleet struct {
	mu    sync.Mutex
	taken map[string]bool
}

// Taken reports whether a machine is in use.
func (f *Fleet) Taken(machine string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken[machine]
}

func (f *Fleet) set(machine string, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken == nil {
		f.taken = map[string]bool{}
	}
	f.taken[machine] = taken
}

// reserve marks a machine as in use.
//
//flow:step
func (f *Fleet) reserve(_ context.Context, machine string) error {
	f.set(machine, true)
	return nil
}

// giveBack releases a machine.
//
//flow:step
func (f *Fleet) giveBack(_ context.Context, machine string) error {
	f.set(machine, false)
	return nil
}

// build uses a machine until ctx ends.
//
//flow:step timeout=24h
func (f *Fleet) build(ctx context.Context, machine string) error {
	<-ctx.Done()
	return fmt.Errorf("build on %s: %w", machine, context.Cause(ctx))
}

// rent builds on a machine for at most an hour. It releases the machine in all cases.
//
//flow:workflow
func rent(ctx workflow.Context, machine string) (ended string, err error) {
	if err := Reserve(ctx, machine); err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, GiveBack(workflow.Detached(ctx), machine)) // The deferred call also happens after a cancellation.
	}()
	limited, cancel := workflow.WithTimeout(ctx, time.Hour)
	defer cancel()
	err = Build(limited, machine)
	if errors.Is(err, workflow.ErrTimeout) {
		return "the hour is over", nil
	}
	return "built", err // If the run was canceled, err matches workflow.ErrCanceled.
}
