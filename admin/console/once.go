package console

import (
	"crypto/rand"
	"sync"
	"time"
)

// once lets a form that is sent twice act once. Some actions take a key that the store keeps; the others, which make another run each
// time, are kept apart here.
type once struct {
	now func() time.Time

	mu   sync.Mutex
	done map[string]*sent
}

// sent is a form that was sent.
type sent struct {
	at   time.Time
	once sync.Once
	to   string
	view *view
	err  error
}

// sentKept is how long a form is remembered.
const sentKept = 10 * time.Minute

func newOnce(now func() time.Time) *once { return &once{now: now, done: map[string]*sent{}} }

// do acts, or returns what came of it when the form of this key was sent before.
func (o *once) do(key string, act func() (string, *view, error)) (string, *view, error) {
	o.mu.Lock()
	now := o.now()
	for k, s := range o.done {
		if now.Sub(s.at) > sentKept {
			delete(o.done, k)
		}
	}
	s := o.done[key]
	if s == nil {
		s = &sent{at: now}
		o.done[key] = s
	}
	o.mu.Unlock()
	s.once.Do(func() { s.to, s.view, s.err = act() })
	return s.to, s.view, s.err
}

// newKey returns a key for a form.
func newKey() string { return rand.Text() }
