package speed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// tap forwards all calls to a store and counts them. It records the time at which each run ended,
// which is the time of the response to the commit that ends the run. On request it also records the
// durations of runs from their creation.
type tap struct {
	store.Store
	calls   atomic.Int64 // number of calls of all methods
	writing atomic.Int32 // number of Commit calls in flight

	mu      sync.Mutex
	counts  counts
	timed   bool // whether created is maintained
	created map[event.RunID]time.Time
	begun   map[event.RunID]bool // runs that the worker created together with their first frame and that have no other commits
	lives   []time.Duration      // durations of the ended runs that created contained
	ends    []time.Time
	waiting []*waiting
}

// counts contains the numbers of requests since the last restart of the tap.
type counts struct {
	commits    int // commits that appended a frame
	batches    int // calls of Commit
	writers    int // maximum number of concurrent calls of Commit
	bytes      int // number of bytes of these frames
	creates    int // created runs
	starts     int // calls of Create
	firstBytes int // bytes of the frames of created runs
	finished   int // number of runs that have ended
	parked     int // commits that released their waiting run, if the commit or an earlier one had a frame
	left       int // commits that released their waiting run, with or without a frame
	consumed   int // items removed from inboxes
	reread     int // logs of more than one frame that were read
}

// waiting is a caller that waits for certain counts.
type waiting struct {
	enough func(counts) bool
	done   chan struct{}
}

func newTap(s store.Store) *tap {
	return &tap{Store: s, created: map[event.RunID]time.Time{}, begun: map[event.RunID]bool{}}
}

// Unwrap returns the underlying store. That store may implement optional interfaces.
func (t *tap) Unwrap() store.Store { return t.Store }

// Examine returns an empty report. A measured server has no persistence to examine, and the calls
// of a starting worker must not be counted.
func (t *tap) Examine(context.Context) (store.Report, error) { return store.Report{}, nil }

// now returns the current counts.
func (t *tap) now() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// restart resets the counts.
func (t *tap) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts, t.lives, t.ends = counts{}, nil, nil
}

// shape returns the shape of the commits. If there were no commits, it returns the shape of the
// creations.
func (c counts) shape() shape {
	frames, calls, bytes := c.commits, c.batches, c.bytes
	if frames == 0 {
		frames, calls, bytes = max(c.creates, 1), max(c.starts, 1), c.firstBytes
	}
	return shape{writers: max(c.writers, 1), batch: max(1, (frames+calls/2)/calls), bytes: max(1, bytes/frames)}
}

// time starts to record the durations of runs that are created after this call.
func (t *tap) time() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timed = true
}

// ended returns the durations and the end times of the runs that have ended since the restart.
func (t *tap) ended() ([]time.Duration, []time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives, t.ends
}

// await blocks until enough returns true for the current counts. The argument what describes this
// condition in errors.
func (t *tap) await(ctx context.Context, what string, enough func(counts) bool) error {
	t.mu.Lock()
	if enough(t.counts) {
		t.mu.Unlock()
		return nil
	}
	w := &waiting{enough, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("wait for %s: %w, so far: %+v", what, context.Cause(ctx), t.counts)
	}
}

// tell wakes the callers whose condition holds. The caller must hold the lock.
func (t *tap) tell() {
	kept := t.waiting[:0]
	for _, w := range t.waiting {
		if w.enough(t.counts) {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	t.waiting = kept
}

// Create forwards the call and records the creation times of the runs.
func (t *tap) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	t.calls.Add(1)
	now := time.Now()
	t.mu.Lock()
	t.counts.starts++
	t.counts.creates += len(runs)
	for i := range runs {
		t.counts.firstBytes += len(runs[i].Frame)
		if runs[i].Owner != nil {
			t.begun[runs[i].Run] = true
		}
		if t.timed {
			t.created[runs[i].Run] = now
		}
	}
	t.mu.Unlock()
	return t.Store.Create(ctx, runs)
}

// Commit forwards the call and counts the commits.
func (t *tap) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	t.calls.Add(1)
	at := int(t.writing.Add(1))
	answers, err := t.Store.Commit(ctx, commits)
	t.writing.Add(-1)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.batches++
	t.counts.writers = max(t.counts.writers, at)
	for i := range answers {
		if c := &commits[i]; answers[i].Err == nil {
			t.count(c, now)
		}
	}
	t.tell()
	return answers, err
}

// count records a commit that the store has answered. The caller must hold the lock.
func (t *tap) count(c *store.Commit, now time.Time) {
	n := &t.counts
	if c.Frame != nil {
		n.commits++
		n.bytes += len(c.Frame)
	}
	n.consumed += c.Consume
	defer delete(t.begun, c.Run)
	switch c.Effect {
	case store.EffectPark:
		n.left++
		if c.Frame != nil || t.begun[c.Run] {
			n.parked++
		}
	case store.EffectFinish:
		n.finished++
		t.ends = append(t.ends, now)
		if created, ok := t.created[c.Run]; ok {
			t.lives = append(t.lives, now.Sub(created))
			delete(t.created, c.Run)
		}
	}
}

// Load forwards the call and counts the logs that were read.
func (t *tap) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	t.calls.Add(1)
	loaded, err := t.Store.Load(ctx, runs)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range loaded {
		if len(loaded[i].Frames) > 1 {
			t.counts.reread++
		}
	}
	return loaded, err
}

// Claim forwards and counts the call.
func (t *tap) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	t.calls.Add(1)
	return t.Store.Claim(ctx, c)
}

// Due forwards and counts the call.
func (t *tap) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	t.calls.Add(1)
	return t.Store.Due(ctx, partition, limit)
}

// Deliver forwards and counts the call.
func (t *tap) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	t.calls.Add(1)
	return t.Store.Deliver(ctx, d)
}

// Heartbeat forwards and counts the call.
func (t *tap) Heartbeat(ctx context.Context, partition int, session store.SessionID) (store.Heartbeat, error) {
	t.calls.Add(1)
	return t.Store.Heartbeat(ctx, partition, session)
}

// Wait forwards and counts the call.
func (t *tap) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	t.calls.Add(1)
	return t.Store.Wait(ctx, w)
}

// Watch forwards and counts the call.
func (t *tap) Watch(ctx context.Context, run event.RunID, n uint64) error {
	t.calls.Add(1)
	return t.Store.Watch(ctx, run, n)
}
