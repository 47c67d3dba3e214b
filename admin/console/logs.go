package console

import (
	"container/list"
	"context"
	"sync"

	"github.com/flowgen/flowgen/admin"
)

// logs keeps the skeletons of logs that were looked at last. Each principal has its own: what it may not see is in none of its.
type logs struct {
	most int64

	mu    sync.Mutex
	bytes int64
	known map[logKey]*list.Element // of *keptLog
	order *list.List               // the one used last is first
}

type logKey struct {
	run string
	who admin.Principal
}

type keptLog struct {
	key logKey

	mu       sync.Mutex // one request reads, others wait for what it has read
	skeleton *skeleton
	counted  int64 // bytes of it that logs.bytes has
}

func newLogs(most int64) *logs {
	return &logs{most: most, known: map[logKey]*list.Element{}, order: list.New()}
}

// with calls use with the skeleton of a log up to an event. err is why there is no more of it.
func (l *logs) with(ctx context.Context, q *request, run string, last uint64, use func(s *skeleton, err error)) {
	kept := l.kept(logKey{run, q.who})
	kept.mu.Lock()
	err := kept.skeleton.extend(ctx, q.service, run, last)
	use(kept.skeleton, err)
	bytes := kept.skeleton.bytes
	kept.mu.Unlock()
	l.count(kept, bytes)
}

func (l *logs) kept(key logKey) *keptLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.known[key]; e != nil {
		l.order.MoveToFront(e)
		return e.Value.(*keptLog)
	}
	kept := &keptLog{key: key, skeleton: newSkeleton()}
	l.known[key] = l.order.PushFront(kept)
	return kept
}

// count takes in how large a skeleton is now, and forgets those that were not used for longest.
func (l *logs) count(kept *keptLog, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.known[kept.key]; e == nil || e.Value != kept {
		return // it was forgotten meanwhile
	}
	l.bytes += bytes - kept.counted
	kept.counted = bytes
	for l.bytes > l.most && l.order.Len() > 1 {
		last := l.order.Back()
		old := last.Value.(*keptLog)
		l.order.Remove(last)
		delete(l.known, old.key)
		l.bytes -= old.counted
	}
}
