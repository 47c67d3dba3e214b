package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// stream is a list of chunks. The last chunk has the index last.
type stream struct {
	chunks  [][]byte
	last    uint64
	closed  bool
	writers map[string]uint64
}

// first returns the index of the first retained chunk.
func (s *stream) first() uint64 {
	if len(s.chunks) == 0 {
		return 0
	}
	return s.last - uint64(len(s.chunks)) + 1
}

// Publish appends chunks to streams of an owned run.
func (s *Store) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := store.CheckPublish(chunks); err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.op.Publish(run, fence, chunks)
	p.announce()
	if err != nil {
		return fmt.Errorf("publish to streams of run %s: %w", run, err)
	}
	return nil
}

// stream returns a stream of a chain, or nil if it was never written to.
func (p *partition) stream(chain event.RunID, name string) *stream {
	return p.streams[chain][name]
}

// Stream returns the state of a stream.
func (p *partition) Stream(chain event.RunID, name string) (protocol.Stream, error) {
	st := p.stream(chain, name)
	if st == nil {
		return protocol.Stream{Chain: chain, Name: name, First: 1}, nil
	}
	return protocol.Stream{Chain: chain, Name: name, Found: true, First: st.last + 1 - uint64(len(st.chunks)), Last: st.last, Closed: st.closed}, nil
}

// SaveStream stores the state of a stream. It creates the stream if it does not exist.
func (p *partition) SaveStream(s protocol.Stream) (protocol.Stream, error) {
	if !s.Found {
		if p.streams[s.Chain] == nil {
			p.streams[s.Chain] = map[string]*stream{}
		}
		p.streams[s.Chain][s.Name], s.Found = &stream{}, true
	}
	st := p.stream(s.Chain, s.Name)
	st.last, st.closed = s.Last, s.Closed
	return s, nil
}

// TrimStream removes the chunks before First.
func (p *partition) TrimStream(s protocol.Stream) error {
	st := p.stream(s.Chain, s.Name)
	st.trim(len(st.chunks) - int(s.Last+1-s.First))
	return nil
}

// AddChunk appends a chunk.
func (p *partition) AddChunk(s protocol.Stream, c *store.Publication) error {
	st := p.stream(s.Chain, s.Name)
	st.chunks = append(st.chunks, c.Body)
	st.last = s.Last
	if c.Writer == "" {
		return nil
	}
	if st.writers == nil {
		st.writers = map[string]uint64{}
	}
	st.writers[c.Writer] = c.Nth
	return nil
}

// Written returns the number of the last chunk that a writer has written.
func (p *partition) Written(s protocol.Stream, writer string) (uint64, error) {
	return p.stream(s.Chain, s.Name).writers[writer], nil
}

// DropStream removes a stream.
func (p *partition) DropStream(s protocol.Stream) error {
	delete(p.streams[s.Chain], s.Name)
	if len(p.streams[s.Chain]) == 0 {
		delete(p.streams, s.Chain)
	}
	return nil
}

// trim removes the first n chunks and frees their memory.
func (s *stream) trim(n int) {
	clear(s.chunks[:n])
	s.chunks = s.chunks[n:]
}

// ReadStream returns a part of a stream.
func (s *Store) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.StreamPage{}, err
	}
	if err := store.CheckStreamName(r.Stream); err != nil {
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", r.Stream, r.Run, err)
	}
	p := s.partitionOf(r.Run)
	p.mu.Lock()
	defer p.mu.Unlock()
	run := p.find(r.Run)
	if run == nil {
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", r.Stream, r.Run, store.ErrRunNotFound)
	}
	page := store.StreamPage{Ended: p.ended(run)}
	if st := p.stream(run.chain, r.Stream); st != nil {
		st.page(&r, &page)
	}
	return page, nil
}

// ended reports whether all runs of a run's chain have ended.
func (p *partition) ended(r *run) bool {
	if c := p.chains[r.chain]; c != nil && c.latest != nil {
		return c.latest.queueState == store.StateEnded
	}
	return r.queueState == store.StateEnded
}

// page adds the requested chunks to page. The bodies are shared with the store.
func (s *stream) page(r *store.ReadStream, page *store.StreamPage) {
	page.First, page.Last, page.Closed = s.first(), s.last, s.closed
	from := max(r.From, page.First)
	if r.Tail > 0 {
		from = max(s.last-min(s.last, uint64(r.Tail))+1, page.First)
	}
	limit := r.Limit
	if limit == 0 {
		limit = store.DefaultStreamPage
	}
	if limit < 0 || len(s.chunks) == 0 || from > s.last {
		return
	}
	kept := s.chunks[from-page.First:]
	kept = kept[:min(limit, len(kept))]
	page.Chunks = make([]store.Chunk, len(kept))
	for i, body := range kept {
		page.Chunks[i] = store.Chunk{Index: from + uint64(i), Body: body}
	}
}

// AwaitStream blocks until a stream of the run's chain changes or the chain ends.
func (s *Store) AwaitStream(ctx context.Context, run event.RunID, name string, after uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := store.CheckStreamName(name); err != nil {
		return fmt.Errorf("await stream %q of run %s: %w", name, run, err)
	}
	p := s.partitionOf(run)
	chain, err := p.chainOf(run)
	if err != nil {
		return fmt.Errorf("await stream %q of run %s: %w", name, run, err)
	}
	chunks := p.chunks.Subscribe(chain)
	defer chunks.Close()
	return chunks.Await(ctx, notify.Awaiting[event.RunID, struct{}]{Look: func() (_ struct{}, more bool, err error) {
		if err := s.enter(ctx); err != nil {
			return struct{}{}, false, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		r := p.find(run)
		if r == nil {
			return struct{}{}, false, fmt.Errorf("await stream %q of run %s: %w", name, run, store.ErrRunNotFound)
		}
		st := p.stream(r.chain, name)
		if st == nil {
			st = &stream{}
		}
		return struct{}{}, st.last != after || st.closed || p.ended(r), nil
	}})
}

// chainOf returns the chain of a run. The chain of a run never changes.
func (p *partition) chainOf(run event.RunID) (event.RunID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.find(run); r != nil {
		return r.chain, nil
	}
	return "", store.ErrRunNotFound
}

func (p *partition) inspectStreams(snap *store.Snapshot) {
	for chain, all := range p.streams {
		state := make(map[string]store.StreamState, len(all))
		for name, st := range all {
			s := store.StreamState{Last: st.last, Closed: st.closed}
			for i, body := range st.chunks {
				s.Chunks = append(s.Chunks, store.Chunk{Index: st.first() + uint64(i), Body: bytes.Clone(body)})
			}
			if len(st.writers) > 0 {
				s.Writers = maps.Clone(st.writers)
			}
			state[name] = s
		}
		snap.Streams[chain] = state
	}
}
