package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Set has the leases of a worker, by partition.
type Set []*Lease

// openingMost bounds how many sessions are opened at the same time.
const openingMost = 16

// Open begins a session on each partition, on many at the same time. Those that do
// not answer, be it all of them, are begun later, as after an outage: the worker starts all
// the same. It does not if the store refuses it, be it for good or until somebody changes
// its permissions.
func (s Set) Open(ctx context.Context) error {
	failed := make([]error, len(s))
	var opening sync.WaitGroup
	slots := make(chan struct{}, openingMost)
	for p, l := range s {
		if len(s) == 1 {
			failed[p] = l.Open(ctx)
			break
		}
		slots <- struct{}{}
		opening.Go(func() {
			defer func() { <-slots }()
			failed[p] = l.Open(ctx)
		})
	}
	opening.Wait()
	for _, err := range failed {
		if err != nil && (!store.Unknown(err) || errors.Is(err, store.ErrRefused) || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// Answer reports whether some partition has answered.
func (s Set) Answer() bool {
	return slices.ContainsFunc(s, func(l *Lease) bool { return l.Current() != "" })
}

// Stop ends the heartbeats of all leases at once, so that a store that does not answer is
// waited for only once.
func (s Set) Stop() {
	var all sync.WaitGroup
	for _, l := range s {
		all.Go(l.Stop)
	}
	all.Wait()
}

// closePatience bounds how long the worker waits for the store to end its sessions.
const closePatience = 5 * time.Second

// Close closes the sessions that were opened. The store recovers at once what they
// still own.
func (s Set) Close(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	var all sync.WaitGroup
	failed := make([]error, len(s))
	for i, l := range s {
		all.Go(func() { failed[i] = l.Close(ctx) })
	}
	all.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		log.Warn("close worker sessions failed: their runs are taken over when their claims expire", "sessions", len(failed), "error", failed[0])
	}
}
