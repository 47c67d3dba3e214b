// Package wait contains the two kinds of wait in a worker: for a duration, and for a notification.
package wait

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// For waits for d by the given clock. It reports false if ctx ended.
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

// Notifier wakes a goroutine that receives from it. Notifications that arrive before the goroutine
// receives are merged into one.
type Notifier chan struct{}

// NewNotifier returns a Notifier without a pending notification.
func NewNotifier() Notifier { return make(Notifier, 1) }

// Notify notifies the receiver without blocking. It reports false if a notification is pending.
func (n Notifier) Notify() bool {
	select {
	case n <- struct{}{}:
		return true
	default:
		return false
	}
}
