package cloudblobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gocloud.dev/gcerrors"
)

// limits bounds a call.
type limits struct {
	attempts int           // how often a call is tried
	pause    time.Duration // before the second attempt; it doubles with each attempt
	patience time.Duration // of an attempt, without the time that its bytes need
	rate     int64         // bytes per second that are transferred at least
}

func (l limits) duration(size int64) time.Duration {
	return l.patience + time.Duration(float64(size)/float64(l.rate)*float64(time.Second))
}

// deadline ends an attempt.
type deadline struct {
	limits limits
	timer  *time.Timer
}

// extend gives the attempt the time to transfer size bytes from now on.
func (d *deadline) extend(size int64) { d.timer.Reset(d.limits.duration(size)) }

// try calls do, which transfers size bytes, until it succeeds or has failed s.limits.attempts times
// or for a reason that does not pass. It returns an [Error], an error of the context, or an error
// with the code NotFound.
func (s *Store) try(ctx context.Context, op, name string, size int64, do func(context.Context, *deadline) error) error {
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", subject(op, name), context.Cause(ctx))
		}
		err := s.attempt(ctx, size, do)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			continue
		case gcerrors.Code(err) == gcerrors.NotFound:
			return err
		}
		reason := s.reason(err)
		if n == s.limits.attempts || !reason.passes() {
			return &Error{Op: op, Name: name, Reason: reason, Err: err}
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.limits.pause << (n - 1)):
		}
	}
}

var errSlow = errors.New("no answer in time")

func (s *Store) attempt(ctx context.Context, size int64, do func(context.Context, *deadline) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.limits.duration(size), func() { cancel(errSlow) })
	defer timer.Stop()
	err := do(ctx, &deadline{limits: s.limits, timer: timer})
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	return err
}
