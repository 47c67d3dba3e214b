package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// streamTopic names something that concerns an AwaitStream: its stream of the chain; the chain without
// a stream, for its end; and its stream by the run that it asks for. Of the first two the writer
// tells, of the last the poller, which finds the chain by the run.
type streamTopic struct {
	chain, run event.RunID
	stream     string
}

// AwaitStream blocks until there is something new in a stream of the run's chain.
func (s *Store) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	err := store.CheckStreamName(stream)
	chain := run // which is true of most runs
	for again := true; again && err == nil; {
		chain, again, err = s.awaitStream(ctx, run, chain, stream, after)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("await stream %q of run %s: %w", stream, run, err)
	}
	return err
}

// awaitStream waits for what happens to a stream of a chain. If the chain of the run is another
// one it says so, and the wait must begin again.
func (s *Store) awaitStream(ctx context.Context, run, chain event.RunID, stream string, after uint64) (now event.RunID, again bool, err error) {
	changes := s.notifier.streams.Subscribe(
		streamTopic{chain: chain, stream: stream}, streamTopic{chain: chain}, streamTopic{run: run, stream: stream})
	defer changes.Close()
	signal(s.notifier.joined)
	err = changes.Await(ctx, notify.Awaiting[streamTopic, standing]{Look: func() (st standing, done bool, err error) {
		now, st, err = s.standing(ctx, run, stream)
		return st, now != chain || st.last != after || st.closed || st.ended, err
	}})
	return now, now != chain, err
}

// standing returns the chain of a run and how a stream of it stands.
func (s *Store) standing(ctx context.Context, run event.RunID, stream string) (chain event.RunID, st standing, err error) {
	if err := s.enter(ctx); err != nil {
		return "", st, err
	}
	err = s.read(ctx, func(c *conn) (err error) {
		chain, st, err = c.standing(run, stream)
		return err
	})
	if err == nil && chain == "" {
		err = store.ErrRunNotFound
	}
	return chain, st, ofRun(run, 0, err)
}

// readStreams finds out how streams stand. If the run is gone it stands otherwise than
// before in any case: whoever waits is told. So it is if it is damaged.
func (f *survey) readStreams(c *conn, topics []streamTopic) error {
	if len(topics) > 0 {
		f.streams = make(map[streamTopic]standing, len(topics))
	}
	for _, t := range topics {
		if t.run == "" {
			continue
		}
		chain, now, err := c.standing(t.run, t.stream)
		if err != nil && !ofOneRun(err) {
			return err
		}
		now.ended = now.ended || chain == ""
		f.streams[t] = now
	}
	return nil
}
