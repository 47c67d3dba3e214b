package api

import (
	"sync"
	"time"
)

// shares bounds what each principal may ask for.
type shares struct {
	rate, streams int
	now           func() time.Time

	mu  sync.Mutex
	who map[string]*share
}

// share holds what one principal has left.
type share struct {
	mutations float64 // that it may make at once
	at        time.Time
	open      int
}

func newShares(rate, streams int, now func() time.Time) *shares {
	return &shares{rate: rate, streams: streams, now: now, who: map[string]*share{}}
}

// manyShares is how many principals are remembered before those are forgotten that ask for nothing now.
const manyShares = 1000

// of returns the share of a principal as it is now.
func (s *shares) of(name string) *share {
	now := s.now()
	if len(s.who) >= manyShares {
		for name, other := range s.who {
			if other.open == 0 && now.Sub(other.at) >= time.Second { // it is full again
				delete(s.who, name)
			}
		}
	}
	mine := s.who[name]
	if mine == nil {
		mine = &share{mutations: float64(s.rate), at: now}
		s.who[name] = mine
	}
	if passed := now.Sub(mine.at); passed > 0 {
		mine.mutations = min(float64(s.rate), mine.mutations+passed.Seconds()*float64(s.rate))
		mine.at = now
	}
	return mine
}

// mutate takes one change; if there is none left it returns when there will be.
func (s *shares) mutate(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of(name)
	if mine.mutations < 1 {
		return time.Duration((1 - mine.mutations) / float64(s.rate) * float64(time.Second))
	}
	mine.mutations--
	return 0
}

// hold takes one stream, and returns what gives it back; nil: there is none left.
func (s *shares) hold(name string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of(name)
	if mine.open >= s.streams {
		return nil
	}
	mine.open++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		mine.open--
	}
}
