package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// once lets a form that is sent twice act once. Some actions take a key that the store keeps; the others, which make another run each
// time, are kept apart here. Of each form it keeps a digest and what came of it, of each principal so many forms; what was refused, and so
// changed nothing, it forgets.
type once struct {
	now func() time.Time

	mu   sync.Mutex
	done map[formID]*sent
}

// formID is a form of a principal.
type formID struct {
	who string
	sum [sha256.Size]byte
}

// sent is a form that was sent.
type sent struct {
	at   time.Time
	once sync.Once
	to   string
	view *view
	err  error
}

const (
	sentKept = 10 * time.Minute // is how long a form is remembered
	sentMost = 100              // is how many forms of a principal are
)

func newOnce(now func() time.Time) *once { return &once{now: now, done: map[formID]*sent{}} }

// do acts for somebody, or returns what came of it when the form of this key, and of what it is about, was sent before. A form without a
// key is another one each time.
func (o *once) do(who, key, about string, act func() (string, *view, error)) (string, *view, error) {
	if key == "" {
		return act()
	}
	id := formID{who, sha256.Sum256([]byte(key + "\x00" + about))}
	s := o.form(id)
	s.once.Do(func() { s.to, s.view, s.err = act() })
	if p := admin.ProblemOf(s.err); p != nil && p.Status < http.StatusInternalServerError { // after others it is not known what was done
		o.mu.Lock()
		if o.done[id] == s {
			delete(o.done, id)
		}
		o.mu.Unlock()
	}
	return s.to, s.view, s.err
}

// form returns a form that was sent, or is now.
func (o *once) form(id formID) *sent {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.done[id]; s != nil {
		return s
	}
	now := o.now()
	var oldest formID
	mine := 0
	for k, s := range o.done {
		switch {
		case now.Sub(s.at) > sentKept:
			delete(o.done, k)
		case k.who == id.who:
			if mine++; mine == 1 || s.at.Before(o.done[oldest].at) {
				oldest = k
			}
		}
	}
	if mine >= sentMost {
		delete(o.done, oldest)
	}
	s := &sent{at: now}
	o.done[id] = s
	return s
}

// newKey returns a key for a form.
func newKey() string { return rand.Text() }
