package workflow

import "time"

// Now returns the time of the event to which the code reacts, by the store's clock, in UTC and with
// millisecond precision. It does not change between durable operations, and is the same in every
// replay.
func Now(ctx Context) time.Time { return ctx.branch().Now() }

// Sleep blocks for d. The due time is kept in the store: neither a crash nor a shutdown of all
// workers shortens or restarts it. It returns at once if d is not positive. The error is
// ErrCanceled or ErrTimeout if ctx ends first.
func Sleep(ctx Context, d time.Duration) error {
	b := ctx.branch()
	b.Gate(ctx.s) // before the current time is read
	return b.Sleep(ctx.s, b.Until(d))
}

// SleepUntil blocks until t, like [Sleep].
func SleepUntil(ctx Context, t time.Time) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	return b.Sleep(ctx.s, t)
}
