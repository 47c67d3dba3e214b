package main

import (
	"context"
	"os"

	"github.com/flowgen/flowgen/runtime/store"
)

// crashStore kills the process right after a commit. It shows what the SDK is
// for; nothing of it is needed in a program of your own.
type crashStore struct {
	store.Store
	after uint64 // event of the log
}

// crashing returns s, or a store that kills the process after an event of it.
func crashing(s store.Store, after uint64) store.Store {
	if after == 0 {
		return s
	}
	return &crashStore{s, after}
}

// Unwrap lets the optional abilities of the store be found.
func (s *crashStore) Unwrap() store.Store { return s.Store }

// Create kills the process if the first frame of a new run holds the event.
func (s *crashStore) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, runs)
	for i, c := range created {
		if c.New && runs[i].Seq >= s.after {
			die()
		}
	}
	return created, err
}

// Commit kills the process if a frame that was appended holds the event.
func (s *crashStore) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	done, err := s.Store.Commit(ctx, commits)
	for i, c := range done {
		if c.Err == nil && commits[i].Frame != nil && commits[i].First <= s.after && s.after <= commits[i].Last {
			die()
		}
	}
	return done, err
}

// die ends the process as kill -9 does: nothing is flushed, no defer runs.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // until the signal arrives
}
