// Package wait has the two ways in which the parts of a worker wait: for a while, and to be
// notified.
package wait

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// For waits for d by a clock and reports whether ctx still lives.
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

// Notifier wakes a goroutine that receives from it. Notifications that it has not
// received yet count as one.
type Notifier chan struct{}

// NewNotifier returns a Notifier that nobody has notified.
func NewNotifier() Notifier { return make(Notifier, 1) }

// Notify never blocks. It reports false if there is a notification already that was not
// received.
func (n Notifier) Notify() bool {
	select {
	case n <- struct{}{}:
		return true
	default:
		return false
	}
}
