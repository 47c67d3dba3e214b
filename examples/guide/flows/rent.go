package flows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Fleet knows which machines are taken.
type Fleet struct {
	mu    sync.Mutex
	taken map[string]bool
}

// Taken reports whether somebody has the machine.
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

// reserve takes a machine.
//
//flow:step
func (f *Fleet) reserve(_ context.Context, machine string) error {
	f.set(machine, true)
	return nil
}

// giveBack makes a machine free.
//
//flow:step
func (f *Fleet) giveBack(_ context.Context, machine string) error {
	f.set(machine, false)
	return nil
}

// build uses the machine until the work is done, which is never.
//
//flow:step timeout=24h
func (f *Fleet) build(ctx context.Context, machine string) error {
	<-ctx.Done()
	return fmt.Errorf("build on %s: %w", machine, context.Cause(ctx))
}

// rent builds on a machine for an hour at most, and gives it back however that
// ends.
//
//flow:workflow
func rent(ctx workflow.Context, machine string) (ended string, err error) {
	if err := Reserve(ctx, machine); err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, GiveBack(workflow.Detached(ctx), machine)) // runs after a cancel, too
	}()
	limited, cancel := workflow.WithTimeout(ctx, time.Hour)
	defer cancel()
	err = Build(limited, machine)
	if errors.Is(err, workflow.ErrTimeout) {
		return "the hour is over", nil
	}
	return "built", err // after a cancel of the run, err matches workflow.ErrCanceled
}
