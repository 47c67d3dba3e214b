package api

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin/internal/rate"
)

// shares limits the requests of each principal.
type shares struct {
	mutations *rate.Limiter
	streams   share
	lists     share
}

func newShares(mutations, streams, lists int, now func() time.Time) *shares {
	return &shares{mutations: rate.New(mutations, now), streams: share{most: streams}, lists: share{most: lists}}
}

// mutate takes one change from the rate limit. If there is none left, it returns the time until the
// next one.
func (s *shares) mutate(name string) time.Duration { return s.mutations.Take(name) }

// share limits the number of concurrent uses of something per principal.
type share struct {
	most int

	mu   sync.Mutex
	open map[string]int // by principal
}

// hold takes n and returns a function that releases them, or nil if fewer are left.
func (s *share) hold(name string, n int) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name]+n > s.most {
		return nil
	}
	if s.open == nil {
		s.open = map[string]int{}
	}
	s.open[name] += n
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[name] -= n; s.open[name] == 0 {
			delete(s.open, name)
		}
	}
}
