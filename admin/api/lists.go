package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// listEvery is how often a list is asked for, at most, while somebody looks at it.
const listEvery = time.Second

// lists asks the service for lists of runs: each at most once in listEvery, for all who look at it together, and
// only while somebody does.
type lists struct {
	runs func(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error)

	mu  sync.Mutex
	all map[listKey]*watched
}

// listKey names a list: all with the same key see the same.
type listKey struct {
	query string
	role  admin.Role
	owner string
}

// watched is a list that somebody looks at, or has within listEvery.
type watched struct {
	watchers int
	asked    time.Time     // last
	cancel   func()        // ends the asking
	ended    chan struct{} // closed when the asking has ended
	now      listState
	version  uint64        // counts what it was; 0: it was not asked for yet
	changed  chan struct{} // closed with the next version
}

// listState is what a list is.
type listState struct {
	page []byte // as JSON
	sum  string // of page: the place of a reader that has got it
	err  error  // of the last time that it was asked for; then page is of the last time that this worked
}

func newLists(runs func(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error)) *lists {
	return &lists{runs: runs, all: map[listKey]*watched{}}
}

// watch delivers the page of a filter as a principal sees it, and again when it has changed, until ctx ends. An
// error is no end: the list is asked for again. Of what has changed more than once since the last delivery the newest is delivered.
func (l *lists) watch(ctx context.Context, p admin.Principal, f admin.Filter) iter.Seq[listState] {
	return func(yield func(listState) bool) {
		key := listKey{route.FilterQuery(f).Encode(), p.Role, p.Owner}
		one := l.join(key, p, f)
		defer l.leave(one)
		for seen := uint64(0); ; {
			l.mu.Lock()
			now, version, changed := one.now, one.version, one.changed
			l.mu.Unlock()
			if version > seen {
				if seen = version; !yield(now) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// join adds a watcher; the first one begins the asking.
func (l *lists) join(key listKey, p admin.Principal, f admin.Filter) *watched {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, one := range l.all { // nobody looks at these any more
		if one.watchers == 0 && time.Since(one.asked) >= listEvery && other != key {
			delete(l.all, other)
		}
	}
	one := l.all[key]
	if one == nil {
		one = &watched{changed: make(chan struct{}), ended: make(chan struct{})}
		close(one.ended)
		l.all[key] = one
	}
	if one.watchers++; one.watchers == 1 {
		ctx, cancel := context.WithCancel(context.Background()) // it outlives the watcher that has come first
		before, ended := one.ended, make(chan struct{})
		one.cancel, one.ended = cancel, ended
		go func() {
			defer close(ended)
			<-before
			l.ask(ctx, one, p, f)
		}()
	}
	return one
}

// leave takes a watcher away; after the last one nothing is asked any more.
func (l *lists) leave(one *watched) {
	l.mu.Lock()
	one.watchers--
	last, ended := one.watchers == 0, one.ended
	if last {
		one.cancel()
	}
	l.mu.Unlock()
	if last {
		<-ended
	}
}

// ask asks for a list until ctx ends. Who comes back within listEvery does not make it be asked for more often.
func (l *lists) ask(ctx context.Context, one *watched, p admin.Principal, f admin.Filter) {
	for {
		l.mu.Lock()
		wait := time.NewTimer(time.Until(one.asked.Add(listEvery)))
		l.mu.Unlock()
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return
		}
		l.mu.Lock()
		one.asked = time.Now()
		l.mu.Unlock()
		page, err := l.runs(ctx, p, f)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		one.is(&page, err)
		l.mu.Unlock()
	}
}

// is takes what a list is now.
func (one *watched) is(page *admin.RunPage, err error) {
	now := listState{page: one.now.page, sum: one.now.sum, err: err}
	if err == nil {
		now.page = encode(page)
		sum := sha256.Sum256(now.page)
		now.sum = hex.EncodeToString(sum[:8])
	}
	before := one.now.err
	same := before == nil && err == nil || before != nil && err != nil && before.Error() == err.Error()
	if one.version > 0 && same && bytes.Equal(now.page, one.now.page) {
		return
	}
	one.now = now
	one.version++
	close(one.changed)
	one.changed = make(chan struct{})
}
