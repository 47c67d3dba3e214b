package api

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin/internal/rate"
)

// shares bounds what each principal may ask for.
type shares struct {
	mutations *rate.Limiter
	streams   int

	mu   sync.Mutex
	open map[string]int // by principal
}

func newShares(most, streams int, now func() time.Time) *shares {
	return &shares{mutations: rate.New(most, now), streams: streams, open: map[string]int{}}
}

// mutate takes one change; if there is none left it returns when there will be.
func (s *shares) mutate(name string) time.Duration { return s.mutations.Take(name) }

// hold takes one stream, and returns what gives it back; nil: there is none left.
func (s *shares) hold(name string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] >= s.streams {
		return nil
	}
	s.open[name]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[name]--; s.open[name] == 0 {
			delete(s.open, name)
		}
	}
}
