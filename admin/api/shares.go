package api

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin/internal/rate"
)

// shares bounds what each principal may ask for.
type shares struct {
	mutations *rate.Limiter
	streams   share
	lists     share
}

func newShares(mutations, streams, lists int, now func() time.Time) *shares {
	return &shares{mutations: rate.New(mutations, now), streams: share{most: streams}, lists: share{most: lists}}
}

// mutate takes one change; if there is none left it returns when there will be.
func (s *shares) mutate(name string) time.Duration { return s.mutations.Take(name) }

// share is how many of something each principal may have at a time.
type share struct {
	most int

	mu   sync.Mutex
	open map[string]int // by principal
}

// hold takes n, and returns what gives them back; nil: there are not as many left, and none was taken.
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
