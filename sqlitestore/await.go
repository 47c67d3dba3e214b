package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// await is everybody who waits for news of one stream. A commit closes one channel
// for any number of them.
type await struct {
	run   event.RunID   // one of the chain
	next  chan struct{} // closed by the next news
	known standing      // as the first of them, or the poller, has seen it
	seen  bool          // known is set
	n     int
}

// streamNews says that something has happened to a stream; without a name, to all of
// the chain.
type streamNews struct {
	chain  event.RunID
	stream string
}

// ended tells the followers of a chain to look whether it has ended, or whether their
// run is gone.
func (n *news) ended(chain event.RunID) { n.streams = append(n.streams, streamNews{chain: chain}) }

// AwaitStream blocks until there is something new in a stream of the run's chain.
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
	chain := run // which is true of most runs
	for {
		w := s.hub.follow(run, chain, stream)
		if w == nil {
			return store.ErrClosed
		}
		found, st, err := s.standing(ctx, run, stream)
		switch {
		case err != nil || found == chain && (st.last != after || st.closed || st.ended):
			s.hub.unfollow(chain, stream, w)
			return err
		case found != chain:
			s.hub.unfollow(chain, stream, w)
			chain = found
			continue
		}
		s.hub.sawStream(chain, stream, w, st)
		select {
		case <-w.next:
		case <-ctx.Done():
			s.hub.unfollow(chain, stream, w)
			return ctx.Err()
		}
	}
}

// standing returns the chain of a run and how a stream of it stands.
func (s *Store) standing(ctx context.Context, run event.RunID, stream string) (chain event.RunID, st standing, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		chain, st, err = c.standing(run, stream)
		return err
	})
	if err == nil && chain == "" {
		err = store.ErrRunNotFound
	}
	return chain, st, ofRun(run, 0, err)
}

// follow registers for news of a stream; nil: the store is closed.
func (h *hub) follow(run, chain event.RunID, stream string) *await {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if h.awaits[chain] == nil {
		h.awaits[chain] = map[string]*await{}
	}
	w := h.awaits[chain][stream]
	if w == nil {
		w = &await{run: run, next: make(chan struct{})}
		h.awaits[chain][stream] = w
	}
	w.n++
	signal(h.joined)
	return w
}

// sawStream notes how a stream stood. If that differs from what somebody else has
// seen, that one has not been told yet.
func (h *hub) sawStream(chain event.RunID, stream string, w *await, st standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.awaits[chain][stream] != w: // told meanwhile
	case w.seen && w.known != st:
		h.tellFollowers(streamNews{chain, stream})
	default:
		w.seen, w.known = true, st
	}
}

// tellFollowers ends AwaitStreams: they look again.
func (h *hub) tellFollowers(n streamNews) {
	of := h.awaits[n.chain]
	for stream, w := range of {
		if n.stream == "" || n.stream == stream {
			delete(of, stream)
			close(w.next)
		}
	}
	if of != nil && len(of) == 0 {
		delete(h.awaits, n.chain)
	}
}

// unfollow gives up before there was news.
func (h *hub) unfollow(chain event.RunID, stream string, w *await) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.n--; w.n == 0 && h.awaits[chain][stream] == w {
		if delete(h.awaits[chain], stream); len(h.awaits[chain]) == 0 {
			delete(h.awaits, chain)
		}
	}
}

// awaited is a stream that somebody waits for, and how it was found to stand.
type awaited struct {
	run, chain event.RunID
	stream     string
	now        standing
}

// awaited returns the streams that somebody waits for, or is about to.
func (h *hub) awaited() []awaited {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []awaited
	for chain, of := range h.awaits {
		for stream, w := range of {
			all = append(all, awaited{run: w.run, chain: chain, stream: stream})
		}
	}
	return all
}

// readStreams finds out how streams stand. If the run is gone it stands otherwise than
// before in any case: whoever waits is told. So it is if it is damaged.
func (f *survey) readStreams(c *conn, streams []awaited) error {
	f.streams = make([]awaited, len(streams))
	for i, a := range streams {
		chain, now, err := c.standing(a.run, a.stream)
		if err != nil && !ofOneRun(err) {
			return err
		}
		now.ended = now.ended || chain == ""
		a.now = now
		f.streams[i] = a
	}
	return nil
}

// compareStreams ends the AwaitStreams of those streams that stand otherwise than is
// known. Whoever has registered, but not said yet what it has seen, may have looked
// before what was found now: it is compared by sawStream.
func (h *hub) compareStreams(found []awaited) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range found {
		switch w := h.awaits[a.chain][a.stream]; {
		case w == nil:
		case !w.seen:
			w.seen, w.known = true, a.now
		case w.known != a.now:
			h.tellFollowers(streamNews{a.chain, a.stream})
		}
	}
}
