package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// AwaitStream blocks until there is something new in a stream of the run's chain. Many
// AwaitStreams of a chain cost as much as one. Like Watch it also returns if the server
// has lost writes.
func (s *Store) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	err := store.CheckStreamName(stream)
	if err == nil {
		err = s.awaitStream(ctx, run, stream, after)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("await stream %q of run %s: %w", stream, run, err)
	}
	return err
}

func (s *Store) awaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	chain := short(run) // which is true of most runs
	for {
		now, err := s.awaitStreamOf(ctx, run, chain, stream, after)
		if err != nil || now == chain {
			return err
		}
		chain = now
	}
}

// awaitStreamOf waits for what happens to a stream of a chain. It returns the chain of
// the run: if that is another one nothing was published for it.
func (s *Store) awaitStreamOf(ctx context.Context, run event.RunID, chain, stream string, after uint64) (now string, err error) {
	changes := s.pubsub.topics.Subscribe(s.partitionOf(run).told(chain))
	defer changes.Close()
	if err := changes.Confirmed(ctx, cover); err != nil {
		return "", err
	}
	known := strconv.FormatUint(after, 10)
	err = changes.Await(ctx, notify.Awaiting[string, string]{Patience: watchCover, Judge: func(h hint) notify.Verdict {
		last, name, all := strings.Cut(h.Body, " ")
		switch {
		case !all, name == stream && last == "":
			return notify.Look
		case name == stream && last != known:
			return notify.Done
		}
		return notify.Ignore
	}, Look: func() (string, bool, error) {
		look, err := s.lookAtStream(ctx, run, stream, known)
		now = look.chain
		return "", look.chain != chain || look.last != after || look.closed || look.ended, err
	}})
	return now, err
}
