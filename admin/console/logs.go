package console

import (
	"context"
	"sync"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/recent"
)

// logs keeps the skeletons of logs that were looked at last. Each principal has its own: what it may not see is in none of its.
type logs struct {
	kept *recent.Cache[logKey, keptLog]
}

type logKey struct {
	run string
	who admin.Principal
}

type keptLog struct {
	mu       sync.Mutex // one request reads, others wait for what it has read
	skeleton *skeleton
}

func newLogs(most int64) *logs { return &logs{recent.New[logKey, keptLog](most)} }

// with calls use with the skeleton of a log up to an event. err is why there is no more of it.
func (l *logs) with(ctx context.Context, q *request, run string, last uint64, use func(s *skeleton, err error)) {
	key := logKey{run, q.who}
	one := l.kept.Get(key, func() *keptLog { return &keptLog{skeleton: newSkeleton()} })
	one.mu.Lock()
	err := one.skeleton.extend(ctx, q.service, run, last)
	use(one.skeleton, err)
	bytes := one.skeleton.bytes
	one.mu.Unlock()
	l.kept.Measure(key, one, bytes)
}
