package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
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
		ear := s.hub.listen(s.partitionOf(run).told(chain))
		if ear == nil {
			return store.ErrClosed
		}
		now, err := s.follow(ctx, ear, run, chain, stream, after)
		ear.close()
		if err != nil || now == chain {
			return err
		}
		chain = now
	}
}

// follow waits for news of a stream with an ear for the chain. It returns the chain of
// the run: if that is another one there was nothing to hear.
func (s *Store) follow(ctx context.Context, ear *ear, run event.RunID, chain, stream string, after uint64) (string, error) {
	if err := ear.await(ctx); err != nil {
		return "", err
	}
	known := strconv.FormatUint(after, 10)
	concerns := func(hint string) (look, news bool) {
		last, name, all := strings.Cut(hint, " ")
		switch {
		case !all:
			return true, false
		case name != stream:
			return false, false
		}
		return last == "", last != known
	}
	for {
		look, err := s.lookAtStream(ctx, run, stream, known)
		switch {
		case err != nil:
			return "", err
		case look.chain != chain, look.last != after, look.closed, look.ended:
			return look.chain, nil
		}
		if again, err := s.hear(ctx, ear, concerns); err != nil || !again {
			return chain, err
		}
	}
}
