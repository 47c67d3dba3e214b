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

// Set contains the leases of a worker, indexed by partition. An element is nil if the worker has no
// session on the partition.
type Set []*Lease

// all yields the leases.
func (s Set) all(yield func(*Lease) bool) {
	for _, l := range s {
		if l != nil && !yield(l) {
			return
		}
	}
}

// openingMost bounds how many sessions are opened in parallel.
const openingMost = 16

// Open begins a session on each partition, many in parallel. If partitions do not answer, the
// worker starts without them, even if none answers, and their sessions are opened later, as after
// an outage. Open returns an error if the store refuses the worker, permanently or until its
// permissions change.
func (s Set) Open(ctx context.Context) error {
	failed := make([]error, len(s))
	var opening sync.WaitGroup
	slots := make(chan struct{}, openingMost)
	for p, l := range s {
		if l == nil {
			continue
		}
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

// Answer reports whether any partition has answered.
func (s Set) Answer() bool {
	for l := range s.all {
		if l.Current() != "" {
			return true
		}
	}
	return false
}

// Stop ends the heartbeats of all leases in parallel, so that the worker waits only once for a
// store that does not answer.
func (s Set) Stop() {
	var all sync.WaitGroup
	for l := range s.all {
		all.Go(l.Stop)
	}
	all.Wait()
}

// closePatience bounds how long the worker waits for the store to close its sessions.
const closePatience = 5 * time.Second

// Close closes the sessions that were opened. The store recovers their runs at once.
func (s Set) Close(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, closePatience)
	defer cancel()
	var all sync.WaitGroup
	failed := make([]error, len(s))
	for l := range s.all {
		all.Go(func() { failed[l.Partition] = l.Close(ctx) })
	}
	all.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		log.Warn("close worker sessions failed: their runs are taken over when their claims expire", "sessions", len(failed), "error", failed[0])
	}
}
