// Package wait contains the two ways in which the parts of a worker wait: for a duration, and for a
// notification.
package wait

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// For waits for d by the clock and reports whether ctx has not ended.
func For(ctx context.Context, clock store.Clock, d time.Duration) bool {
	done := make(chan struct{})
	stop := clock.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Notifier wakes a goroutine that receives from it. Several notifications before it receives count
// as one.
type Notifier chan struct{}

// NewNotifier returns a Notifier without a pending notification.
func NewNotifier() Notifier { return make(Notifier, 1) }

// Notify never blocks. It reports false if a notification is already pending.
func (n Notifier) Notify() bool {
	select {
	case n <- struct{}{}:
		return true
	default:
		return false
	}
}
