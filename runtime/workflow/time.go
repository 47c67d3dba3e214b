package workflow

import "time"

// Now returns the time of the event that the code reacts to, by the store's
// clock, in UTC and to the millisecond. It stands still between durable
// operations, and is the same in every replay.
func Now(ctx Context) time.Time { return ctx.branch().Now() }

// Sleep blocks for d. The due time is kept in the store: neither a crash nor a
// stop of every worker shortens or restarts it. A d that is not positive
// returns at once. The error is ErrCanceled or ErrTimeout if ctx ends first.
func Sleep(ctx Context, d time.Duration) error {
	b := ctx.branch()
	b.Gate(ctx.s) // before the time is asked for
	return b.Sleep(ctx.s, b.Until(d))
}

// SleepUntil blocks until t, as [Sleep] does.
func SleepUntil(ctx Context, t time.Time) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	return b.Sleep(ctx.s, t)
}
