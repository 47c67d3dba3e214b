package orders

import (
	"context"
	"os"

	"github.com/flowgen/flowgen/runtime/store"
)

// crashStore kills the process directly after a commit, to demonstrate the recovery of runs.
// Applications do not need it.
type crashStore struct {
	store.Store
	after uint64 // sequence number of the event after whose commit the process is killed
}

// Crashing returns a store that kills the process after the event with the number after. If after
// is 0, it returns s.
func Crashing(s store.Store, after uint64) store.Store {
	if after == 0 {
		return s
	}
	return &crashStore{s, after}
}

// Unwrap returns the underlying store. That store may implement optional interfaces.
func (s *crashStore) Unwrap() store.Store { return s.Store }

// Create kills the process if the first frame of a new run contains the event.
func (s *crashStore) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, runs)
	for i, c := range created {
		if c.New && runs[i].Seq >= s.after {
			die()
		}
	}
	return created, err
}

// Commit kills the process if an appended frame contains the event.
func (s *crashStore) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	done, err := s.Store.Commit(ctx, commits)
	for i, c := range done {
		if c.Err == nil && commits[i].Frame != nil && commits[i].First <= s.after && s.after <= commits[i].Last {
			die()
		}
	}
	return done, err
}

// die ends the process with SIGKILL. Nothing is flushed, and no deferred function is called.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // Block until the signal arrives.
}
