package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pageBytes is the size from which on a page of chunks is full.
const pageBytes = 4 << 20

// Publish appends chunks to streams of an owned run.
func (s *Store) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	err := store.CheckPublish(chunks)
	if err == nil {
		_, err = perform(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.publishOwned(run, fence, chunks) })
	}
	if err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	return nil
}

func (t *tx) publishOwned(run event.RunID, fence store.Fence, chunks []store.Publication) error {
	r, err := t.run(run)
	if err != nil {
		return err
	}
	if r == nil || !r.holds(fence) {
		return refuse(store.ErrFenced)
	}
	for i := range chunks {
		c := &chunks[i]
		st, err := t.stream(r.chain, c.Stream)
		if err != nil || st == nil || !st.closed {
			if err != nil {
				return err
			}
			continue
		}
		there, err := t.wrote(st, c)
		if err != nil {
			return err
		}
		if !there {
			return refuse(fmt.Errorf("stream %q: %w", c.Stream, store.ErrStreamClosed))
		}
	}
	return t.publish(r.chain, chunks)
}

// stream is a row of streams.
type stream struct {
	id          int64
	first, last uint64
	closed      bool
}

// stream returns a stream of a chain, nil if nobody has written to it.
func (c *conn) stream(chain event.RunID, name string) (*stream, error) {
	var st *stream
	err := c.query(`SELECT id, first, last, closed FROM streams WHERE chain = +? AND name = +?`, func(r row) error {
		st = scanStream(r, 0)
		return nil
	}, packRun(chain), []byte(name))
	return st, err
}

func scanStream(r row, col int) *stream {
	return &stream{r.ColumnInt64(col), uint64(r.ColumnInt64(col + 1)), uint64(r.ColumnInt64(col + 2)), r.ColumnBool(col + 3)}
}

// wrote reports whether a chunk is in the stream already.
func (c *conn) wrote(st *stream, p *store.Publication) (bool, error) {
	if p.Writer == "" {
		return false, nil
	}
	nth, err := c.number(`SELECT nth FROM writers WHERE stream = +? AND writer = +?`, st.id, []byte(p.Writer))
	return err == nil && uint64(nth) >= p.Nth, err
}

// publish does to the streams of a chain what publications say, one after the other.
func (t *tx) publish(chain event.RunID, all []store.Publication) error {
	for i := range all {
		if err := t.publishOne(chain, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) publishOne(chain event.RunID, p *store.Publication) error {
	t.news.streams = append(t.news.streams, streamNews{chain, p.Stream})
	st, err := t.stream(chain, p.Stream)
	if err != nil {
		return err
	}
	if p.Drop && st != nil {
		if err := t.dropStream(st); err != nil {
			return err
		}
		st = nil
	}
	if st == nil {
		if p.Body == nil && !p.Close {
			return nil
		}
		err := t.exec(`INSERT INTO streams (chain, name, first, last, closed) VALUES (?, ?, 1, 0, 0)`, packRun(chain), []byte(p.Stream))
		if err != nil {
			return err
		}
		st = &stream{id: t.LastInsertRowID(), first: 1}
	}
	if err := t.appendChunk(st, p); err != nil {
		return err
	}
	if n := st.last + 1 - st.first; p.Keep > 0 && n > uint64(p.Keep) {
		st.first = st.last - uint64(p.Keep) + 1
		if err := t.exec(`DELETE FROM chunks WHERE stream = +? AND n < +?`, st.id, st.first); err != nil {
			return err
		}
	}
	st.closed = st.closed || p.Close
	return t.exec(`UPDATE streams SET first = ?, last = ?, closed = ? WHERE id = +?`, st.first, st.last, st.closed, st.id)
}

// appendChunk appends a chunk to a stream, unless that is closed or its writer has
// written it before.
func (t *tx) appendChunk(st *stream, p *store.Publication) error {
	if p.Body == nil || st.closed {
		return nil
	}
	if there, err := t.wrote(st, p); err != nil || there {
		return err
	}
	st.last++
	if err := t.exec(`INSERT INTO chunks VALUES (?, ?, ?)`, st.id, st.last, p.Body); err != nil {
		return err
	}
	if p.Writer == "" {
		return nil
	}
	return t.exec(`INSERT INTO writers VALUES (?1, ?2, ?3) ON CONFLICT (stream, writer) DO UPDATE SET nth = ?3`, st.id, []byte(p.Writer), p.Nth)
}

func (t *tx) dropStream(st *stream) error {
	for _, statement := range []string{
		`DELETE FROM chunks WHERE stream = +?`, `DELETE FROM writers WHERE stream = +?`, `DELETE FROM streams WHERE id = +?`,
	} {
		if err := t.exec(statement, st.id); err != nil {
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
		if err := t.exec(statement, packRun(chain)); err != nil {
			return err
		}
	}
	return nil
}

// ReadStream reads a part of a stream, as of one moment.
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
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", r.Stream, r.Run, err)
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

// chunks returns chunks of a stream from one on, as many as make a page.
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

// errEnough ends a query.
var errEnough = errors.New("enough was read")

// standing is how a stream and its chain stand. Two of them are equal if nothing has
// happened that anybody waits for.
type standing struct {
	stream
	ended bool
}

// selectStanding finds the chain of a run, whether that has ended, and a stream of it.
// A chain has ended with its last run, also if that is purged.
const selectStanding = `SELECT coalesce(r.chain, r.id), r.place = 6 AND (r.next IS NULL OR NOT EXISTS (
		SELECT 1 FROM runs head JOIN runs tip ON tip.id = head.tip WHERE head.id = coalesce(r.chain, r.id) AND tip.place <> 6)),
	s.id, coalesce(s.first, 1), s.last, s.closed
	FROM runs r LEFT JOIN streams s ON s.chain = coalesce(r.chain, r.id) AND s.name = +?2 WHERE r.id = +?1 AND r.hidden = 0`

// standing returns the chain of a run, empty if there is no such run, and how a stream
// of it stands.
func (c *conn) standing(run event.RunID, name string) (chain event.RunID, st standing, err error) {
	err = c.query(selectStanding, func(r row) error {
		chain, st = unpackRun(r, 0), standing{*scanStream(r, 2), r.ColumnBool(1)}
		return nil
	}, packRun(run), []byte(name))
	return chain, st, err
}
