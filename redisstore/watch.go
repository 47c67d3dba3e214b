package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// Watch blocks until the log of a run has more than n frames, or until the run has ended.
// Many Watches of a run cost as much as one. It also returns if the server has lost
// writes: the log has become shorter, or the run has ended without a frame that is new to
// the caller, which would wait for ever.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	frames := s.pubsub.topics.Subscribe(p.frames(short(run)))
	defer frames.Close()
	if err := frames.Confirmed(ctx, cover); err != nil {
		return err
	}
	shorter := shortening{}
	return frames.Await(ctx, notify.Awaiting[string, string]{Patience: watchCover, Judge: func(h hint) notify.Verdict {
		switch {
		case h.Body == "":
			return notify.Look
		case watched(h.Body, n):
			return notify.Done
		}
		return notify.Ignore
	}, Look: func() (_ string, done bool, err error) {
		c := &call{script: scriptWatch, p: p, keys: []string{p.meta(short(run))}, args: []any{n}}
		if err := s.do(ctx, c); err != nil {
			return "", false, fmt.Errorf("watch run %s: %w", run, err)
		}
		frames, ended := c.answer().number(0), c.answer().number(1) == 1
		if frames < 0 {
			return "", false, fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		}
		return "", store.Watched(n, uint64(frames), ended) || shorter.seen(frames, ended), nil
	}})
}

// watched judges what scripts publish: the number of the frame, and after that of the last
// one " end".
func watched(text string, n uint64) bool {
	frames, ended := strings.CutSuffix(text, " end")
	return store.Watched(n, uint64(parseNumber(frames)), ended)
}

// shortening notices that a server has lost frames between two looks at a log.
type shortening struct {
	looked bool
	frames int64
	ended  bool
}

func (s *shortening) seen(frames int64, ended bool) bool {
	lost := s.looked && (frames < s.frames || ended && !s.ended)
	*s = shortening{true, frames, ended}
	return lost
}

// watchCover is after how long a Watch looks again by itself, for the hints that
// a cluster may lose between its nodes.
const watchCover = 15 * time.Second
