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

// mutate consumes one change from the rate limit of a principal. If none is left, it returns the
// time until the next change is allowed.
func (s *shares) mutate(name string) time.Duration { return s.mutations.Take(name) }

// share limits the number of concurrent uses of a resource per principal.
type share struct {
	most int

	mu   sync.Mutex
	open map[string]int // number of uses by name of the principal
}

// hold reserves n uses for a principal, and returns a function that releases them. It returns nil
// if fewer than n are available.
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
