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

// listEvery is the minimum interval between two reads of a watched list.
const listEvery = time.Second

// lists reads lists of runs for watchers. A list is read at most once per listEvery for all
// watchers with the same view, and only while it has watchers.
type lists struct {
	runs func(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error)

	mu  sync.Mutex
	all map[listKey]*watched
}

// listKey identifies a list. All watchers with the same key have the same view of the list.
type listKey struct {
	query string
	role  admin.Role
	owner string
}

// watched is a list that has watchers, or had them within the last listEvery.
type watched struct {
	watchers int
	asked    time.Time     // time of the last read
	cancel   func()        // stops reading
	ended    chan struct{} // closed after reading has stopped
	now      listState
	version  uint64        // number of states so far; 0 before the first read
	changed  chan struct{} // closed when the next version is stored
}

// listState is the state of a list.
type listState struct {
	page []byte // the page in JSON
	sum  string // checksum of page; it identifies the state that a reader has received
	err  error  // error of the last read; page is from the last successful read
}

func newLists(runs func(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error)) *lists {
	return &lists{runs: runs, all: map[listKey]*watched{}}
}

// watch returns an iterator over the states of the page that a filter selects for a principal. It
// begins with the present state and ends when ctx is done. After an error it continues, because the
// list is read again. If the list has changed several times since the last iteration, watch returns
// only the newest state.
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

// join adds a watcher. The first watcher starts reading.
func (l *lists) join(key listKey, p admin.Principal, f admin.Filter) *watched {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, one := range l.all { // removes the lists that have no watchers
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
		ctx, cancel := context.WithCancel(context.Background()) // not derived from the context of the first watcher, which may leave before the others
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

// leave removes a watcher. The last watcher stops reading.
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

// ask reads a list until ctx is done. It waits for listEvery after the last read of an earlier
// call, so that watchers that leave and return do not cause additional reads.
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

// is stores the result of a read as the present state.
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
