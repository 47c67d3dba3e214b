package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// pageBytes is the maximum total size in bytes of the chunks of a page. A page with a single chunk
// may be larger.
const pageBytes = 4 << 20

// Publish appends chunks to streams of an owned run.
func (s *Store) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := store.CheckPublish(chunks); err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	p := s.partitionOf(run)
	c := &call{
		script: scriptPublish, p: p, keys: []string{p.meta(short(run))},
		args: append([]any{short(run), packFence(fence), len(chunks)}, packPublications(chunks)...),
	}
	if err := s.doReplicated(ctx, c); err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	switch a := c.answer(); a.word() {
	case answerOK:
		return nil
	case refusedFenced:
		return fmt.Errorf("publish to streams of run %s: %w", run, store.ErrFenced)
	case refusedClosed:
		return fmt.Errorf("publish to stream %q of run %s: %w", a.text(1), run, store.ErrStreamClosed)
	}
	return fmt.Errorf("publish to streams of run %s: %w", run, unexpected(c))
}

// packPublications encodes publications as script arguments.
func packPublications(all []store.Publication) []any {
	packed := make([]any, 0, 6*len(all))
	for i := range all {
		p := &all[i]
		what := flag(p.Drop, "d") + flag(p.Body != nil, "b") + flag(p.Close, "c")
		packed = append(packed, p.Stream, what, p.Body, p.Keep, p.Writer, p.Nth)
	}
	return packed
}

// streamState is the stored state of a stream except its chunks.
type streamState struct {
	first, last, longest uint64
	closed               bool
}

// unpackStream decodes the stored state of a stream. An empty string is the state of a stream
// without chunks.
func unpackStream(packed string) (streamState, error) {
	if packed == "" {
		return streamState{first: 1}, nil
	}
	var s streamState
	words := strings.Split(packed, " ")
	if len(words) != 4 {
		return s, fmt.Errorf("%w: the state of a stream is %q", errDamaged, packed)
	}
	for i, into := range []*uint64{&s.first, &s.last, &s.longest} {
		n, err := strconv.ParseUint(words[i], 10, 64)
		if err != nil {
			return s, fmt.Errorf("%w: the state of a stream is %q", errDamaged, packed)
		}
		*into = n
	}
	s.closed = words[3] == "1"
	return s, nil
}

// pack encodes the state so that unpackStream can decode it.
func (s *streamState) pack() string {
	return fmt.Sprintf("%d %d %d %s", s.first, s.last, s.longest, cmp.Or(flag(s.closed, "1"), "0"))
}

// page returns the state as a page without chunks.
func (s *streamState) page(ended bool) store.StreamPage {
	page := store.StreamPage{Last: s.last, Closed: s.closed, Ended: ended}
	if s.first <= s.last {
		page.First = s.first
	}
	return page
}

// ReadStream returns a page of a stream. It reads the state of the stream first, and then as many
// chunks as fit into the page.
func (s *Store) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.readStream(ctx, &r)
	if err != nil {
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", r.Stream, r.Run, err)
	}
	return page, nil
}

func (s *Store) readStream(ctx context.Context, r *store.ReadStream) (store.StreamPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.StreamPage{}, err
	}
	if err := store.CheckStreamName(r.Stream); err != nil {
		return store.StreamPage{}, err
	}
	look, err := s.lookAtStream(ctx, r.Run, r.Stream, "")
	if err != nil {
		return store.StreamPage{}, err
	}
	count := r.Limit
	if count == 0 {
		count = store.DefaultStreamPage
	}
	page := look.page(look.ended)
	if count < 0 || page.First == 0 || r.Tail <= 0 && r.From > page.Last {
		return page, nil
	}
	if look.longest > 0 {
		count = min(count, int(max(pageBytes/look.longest, 1)))
	}
	return s.chunksOf(ctx, r, look, count)
}

// chunksOf reads at most count chunks and the state of the stream in one action.
func (s *Store) chunksOf(ctx context.Context, r *store.ReadStream, look lookedAt, count int) (store.StreamPage, error) {
	p := s.partitionOf(r.Run)
	key := p.chunks(look.chain, r.Stream)
	var state *redis.StringCmd
	var chunks *redis.XMessageSliceCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		state = tx.HGet(ctx, p.streams(look.chain), r.Stream)
		switch {
		case r.Tail <= 0:
			chunks = tx.XRangeN(ctx, key, chunkID(r.From), "+", int64(count))
		case r.Tail <= count:
			chunks = tx.XRevRangeN(ctx, key, "+", "-", int64(r.Tail))
		default:
			chunks = tx.XRangeN(ctx, key, chunkID(look.last-min(look.last, uint64(r.Tail))+1), "+", int64(count))
		}
	})
	if err != nil {
		return store.StreamPage{}, err
	}
	now, err := unpackStream(state.Val())
	if err != nil {
		return store.StreamPage{}, err
	}
	page := now.page(look.ended)
	page.Chunks, err = chunksIn(chunks.Val())
	if r.Tail > 0 && r.Tail <= count {
		slices.Reverse(page.Chunks)
	}
	return page, err
}

// chunkID returns the entry ID of a chunk in its Redis stream.
func chunkID(index uint64) string { return strconv.FormatUint(index, 10) + "-0" }

func chunksIn(entries []redis.XMessage) ([]store.Chunk, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	chunks := make([]store.Chunk, len(entries))
	for i, e := range entries {
		index, err := strconv.ParseUint(strings.TrimSuffix(e.ID, "-0"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: a chunk has id %s", errDamaged, e.ID)
		}
		body, _ := e.Values["f"].(string)
		chunks[i] = store.Chunk{Index: index, Body: []byte(body)}
	}
	return chunks, nil
}

// lookedAt is the state of a stream and of its chain.
type lookedAt struct {
	streamState
	chain string
	ended bool
}

// lookAtStream reads the state of a stream. known is the number of the last chunk that the caller
// has read. If the stream has no later chunk, the script marks it as followed, and scripts publish
// its changes.
func (s *Store) lookAtStream(ctx context.Context, run event.RunID, name, known string) (lookedAt, error) {
	p := s.partitionOf(run)
	c := &call{script: scriptStream, p: p, keys: []string{p.meta(short(run))}, args: []any{short(run), name, known}}
	if err := s.do(ctx, c); err != nil {
		return lookedAt{}, err
	}
	a := c.answer()
	if a.word() == "" {
		return lookedAt{}, store.ErrRunNotFound
	}
	return lookedAt{
		streamState: streamState{uint64(a.number(1)), uint64(a.number(2)), uint64(a.number(3)), a.number(4) == 1},
		chain:       a.word(), ended: a.number(5) == 1,
	}, nil
}

// AwaitStream blocks until the stream has a chunk after the given one, is closed, or cannot get
// more chunks because the chain has ended. Many concurrent calls for a chain cost the server as
// much as one. Like Watch, it also returns if the server has lost writes.
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
	chain := short(run) // correct unless the run continues another run
	for {
		now, err := s.awaitStreamOf(ctx, run, chain, stream, after)
		if err != nil || now == chain {
			return err
		}
		chain = now
	}
}

// awaitStreamOf waits for a change of a stream of the given chain. It returns the actual chain of
// the run. If the two differ, the subscription was for the wrong chain, and the caller must repeat
// the call.
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
