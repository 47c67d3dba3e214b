// Package crash kills the process of an example after an event of a log, to demonstrate the
// recovery of runs. Applications do not need it.
package crash

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/store"
)

// After returns a store that counts the events written by this process over all runs. It kills the
// process directly after the commit with which the count reaches n. For n = 0 it returns s.
func After(s store.Store, n int64) store.Store {
	if n == 0 {
		return s
	}
	return &deadly{Store: s, after: n}
}

type deadly struct {
	store.Store
	after   int64
	written atomic.Int64
}

// Unwrap returns the underlying store. That store may implement optional interfaces.
func (s *deadly) Unwrap() store.Store { return s.Store }

// Create counts the first events of new runs.
func (s *deadly) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, runs)
	for i, c := range created {
		if c.New {
			s.wrote(runs[i].Seq)
		}
	}
	return created, err
}

// Commit counts the events of appended frames.
func (s *deadly) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	done, err := s.Store.Commit(ctx, commits)
	for i, c := range done {
		if c.Err == nil && commits[i].Frame != nil {
			s.wrote(commits[i].Last - commits[i].First + 1)
		}
	}
	return done, err
}

func (s *deadly) wrote(events uint64) {
	if s.written.Add(int64(events)) >= s.after {
		die()
	}
}

// die ends the process with SIGKILL. Nothing is flushed, and no deferred function is called.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // Block until the signal arrives.
}
