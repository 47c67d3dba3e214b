package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// pageBytes is the number of bytes at which a page of chunks is full.
const pageBytes = 4 << 20

// Publish appends chunks to streams of an owned run.
func (s *Store) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	err := store.CheckPublish(chunks)
	if err == nil {
		_, err = performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) { return struct{}{}, t.op.Publish(run, fence, chunks) })
	}
	if err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	return nil
}

// stream is a row of the table streams.
type stream struct {
	id          int64
	first, last uint64
	closed      bool
}

// stream returns a stream of a chain, or nil if it was never written to.
func (c *conn) stream(chain event.RunID, name string) (*stream, error) {
	var st *stream
	err := c.query(`SELECT id, first, last, closed FROM streams WHERE chain = +? AND name = +?`, func(r row) error {
		st = scanStream(r, 0)
		return nil
	}, chain, []byte(name))
	return st, err
}

func scanStream(r row, col int) *stream {
	return &stream{r.ColumnInt64(col), uint64(r.ColumnInt64(col + 1)), uint64(r.ColumnInt64(col + 2)), r.ColumnBool(col + 3)}
}

// Stream returns the state of a stream.
func (t *tx) Stream(chain event.RunID, name string) (protocol.Stream, error) {
	st, err := t.stream(chain, name)
	if err != nil || st == nil {
		return protocol.Stream{Chain: chain, Name: name, First: 1}, err
	}
	return protocol.Stream{Chain: chain, Name: name, Found: true, First: st.first, Last: st.last, Closed: st.closed, Key: st.id}, nil
}

// SaveStream stores the state of a stream.
func (t *tx) SaveStream(s protocol.Stream) (protocol.Stream, error) {
	if s.Found {
		return s, t.exec(`UPDATE streams SET first = ?, last = ?, closed = ? WHERE id = +?`, s.First, s.Last, s.Closed, s.Key)
	}
	err := t.exec(`INSERT INTO streams (chain, name, first, last, closed) VALUES (?, ?, ?, ?, ?)`,
		s.Chain, []byte(s.Name), s.First, s.Last, s.Closed)
	s.Found, s.Key = true, t.LastInsertRowID()
	return s, err
}

// TrimStream removes the chunks before First.
func (t *tx) TrimStream(s protocol.Stream) error {
	return t.exec(`DELETE FROM chunks WHERE stream = +? AND n < +?`, s.Key, s.First)
}

// AddChunk stores a chunk, its writer, and its number among the chunks of the writer.
func (t *tx) AddChunk(s protocol.Stream, p *store.Publication) error {
	if err := t.exec(`INSERT INTO chunks VALUES (?, ?, ?)`, s.Key, s.Last, p.Body); err != nil || p.Writer == "" {
		return err
	}
	return t.exec(`INSERT INTO writers VALUES (?1, ?2, ?3) ON CONFLICT (stream, writer) DO UPDATE SET nth = ?3`, s.Key, []byte(p.Writer), p.Nth)
}

// Written returns the number of the last chunk that a writer has written.
func (t *tx) Written(s protocol.Stream, writer string) (uint64, error) {
	nth, err := t.number(`SELECT nth FROM writers WHERE stream = +? AND writer = +?`, s.Key, []byte(writer))
	return uint64(nth), err
}

// DropStream removes a stream with its chunks and writers.
func (t *tx) DropStream(s protocol.Stream) error {
	for _, statement := range []string{
		`DELETE FROM chunks WHERE stream = +?`, `DELETE FROM writers WHERE stream = +?`, `DELETE FROM streams WHERE id = +?`,
	} {
		if err := t.exec(statement, s.Key); err != nil {
			return err
		}
	}
	return nil
}

// dropStreams removes all streams of a chain.
func (t *tx) dropStreams(chain event.RunID) error {
	for _, statement := range []string{
		`DELETE FROM chunks WHERE stream IN (SELECT id FROM streams WHERE chain = +?)`,
		`DELETE FROM writers WHERE stream IN (SELECT id FROM streams WHERE chain = +?)`,
		`DELETE FROM streams WHERE chain = +?`,
	} {
		if err := t.exec(statement, chain); err != nil {
			return err
		}
	}
	return nil
}

// ReadStream returns a part of a stream, read in one snapshot.
func (s *Store) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	var page store.StreamPage
	err := store.CheckStreamName(r.Stream)
	if err == nil {
		err = s.read(ctx, func(c *conn) (err error) {
			page, err = c.page(&r)
			return err
		})
	}
	if err != nil {
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", r.Stream, r.Run, ofRun(r.Run, 0, err))
	}
	return page, nil
}

func (c *conn) page(r *store.ReadStream) (store.StreamPage, error) {
	chain, st, err := c.standing(r.Run, r.Stream)
	if err != nil {
		return store.StreamPage{}, err
	}
	page := store.StreamPage{Last: st.last, Closed: st.closed, Ended: st.ended}
	if chain == "" {
		return page, store.ErrRunNotFound
	}
	if st.first <= st.last {
		page.First = st.first
	}
	from, limit := r.From, r.Limit
	if r.Tail > 0 {
		from = st.last + 1 - min(st.last, uint64(r.Tail))
	}
	if limit == 0 {
		limit = store.DefaultStreamPage
	}
	if limit > 0 && page.First > 0 && from <= st.last {
		page.Chunks, err = c.chunks(st.id, from, limit)
	}
	return page, err
}

// chunks returns a page of the chunks of a stream, beginning with index from.
func (c *conn) chunks(stream int64, from uint64, limit int) ([]store.Chunk, error) {
	var chunks []store.Chunk
	size := 0
	err := c.query(`SELECT n, data FROM chunks WHERE stream = +? AND n >= +? ORDER BY n LIMIT +?`, func(r row) error {
		chunk := store.Chunk{Index: uint64(r.ColumnInt64(0)), Body: blob(r, 1)}
		chunks = append(chunks, chunk)
		if size += len(chunk.Body); size >= pageBytes {
			return errEnough
		}
		return nil
	}, stream, from, limit)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return chunks, err
}

// errEnough ends a query before its last row.
var errEnough = errors.New("enough was read")

// standing is the state of a stream and its chain. AwaitStream returns when the state changes.
type standing struct {
	stream
	ended bool
}

// selectStanding selects the chain of a run, whether the chain has ended, and one of its streams. A
// chain ends with its last run, even if that run is purged.
const selectStanding = `SELECT coalesce(r.chain, r.id), r.place = 6 AND (r.next IS NULL OR NOT EXISTS (
		SELECT 1 FROM runs head JOIN runs tip ON tip.id = head.tip WHERE head.id = coalesce(r.chain, r.id) AND tip.place <> 6)),
	s.id, coalesce(s.first, 1), s.last, s.closed
	FROM runs r LEFT JOIN streams s ON s.chain = coalesce(r.chain, r.id) AND s.name = +?2 WHERE r.id = +?1 AND r.hidden = 0`

// standing returns the chain of a run and the state of one of its streams. The chain is empty if
// the run does not exist.
func (c *conn) standing(run event.RunID, name string) (chain event.RunID, st standing, err error) {
	err = c.query(selectStanding, func(r row) error {
		chain, st = db.UnpackRun(r, 0), standing{*scanStream(r, 2), r.ColumnBool(1)}
		return nil
	}, run, []byte(name))
	return chain, st, err
}

// streamTopic is a topic of AwaitStream. A topic with a chain and a stream is for changes of the
// stream. A topic with only a chain is for the end of the chain. A topic with a run and a stream is
// for the poller, which determines the chain.
type streamTopic struct {
	chain, run event.RunID
	stream     string
}

// AwaitStream blocks until a stream of the run's chain changes or the chain ends.
func (s *Store) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	err := store.CheckStreamName(stream)
	chain := run // most runs are the first of their chain
	for again := true; again && err == nil; {
		chain, again, err = s.awaitStream(ctx, run, chain, stream, after)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("await stream %q of run %s: %w", stream, run, err)
	}
	return err
}

// awaitStream waits for changes of a stream of a chain. If the run belongs to another chain, it
// returns that chain, and the caller must repeat the wait.
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

// standing returns the chain of a run and the state of one of its streams.
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

// readStreams reads the states of the awaited streams. A missing or damaged run counts as changed,
// so that waiting calls are notified.
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

// StreamNames returns the names of the streams of a run's chain.
func (s *Store) StreamNames(ctx context.Context, run event.RunID) (names []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		names = nil
		chain, _, err := c.standing(run, "")
		if err == nil && chain == "" {
			err = store.ErrRunNotFound
		}
		if err != nil {
			return err
		}
		return c.query(`SELECT name FROM streams WHERE chain = +? ORDER BY name`, func(r row) error {
			names = append(names, string(blob(r, 0)))
			return nil
		}, chain)
	})
	if err != nil {
		return nil, fmt.Errorf("list streams of run %s: %w", run, ofRun(run, 0, err))
	}
	return names, nil
}
