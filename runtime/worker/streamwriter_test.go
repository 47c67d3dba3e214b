package worker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// press is a store that records publications. It answers each only when the test permits it.
type press struct {
	store.Store
	begun   chan struct{}
	hears   chan struct{}
	mu      sync.Mutex
	printed []printed
}

// printed is a recorded publication.
type printed struct {
	Stream string
	Chunks int
	First  uint64
	Last   uint64
	Keep   int
}

func (s *press) Publish(_ context.Context, _ event.RunID, _ store.Fence, chunks []store.Publication) error {
	s.begun <- struct{}{}
	<-s.hears
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed = append(s.printed, printed{chunks[0].Stream, len(chunks), chunks[0].Nth, chunks[len(chunks)-1].Nth, chunks[len(chunks)-1].Keep})
	return nil
}

// TestStreamWriter_GathersWhatIsWrittenMeanwhile proves that chunks which goroutines write while a
// call is in flight are sent with the next call.
func TestStreamWriter_GathersWhatIsWrittenMeanwhile(t *testing.T) {
	st := &press{Store: memstore.New(), begun: make(chan struct{}, 100), hears: make(chan struct{})}
	w := New(workflow.NewClient(st, workflow.ClientConfig{WarnPayload: 1 << 20}), Config{})
	p := &streamWriter{env: w.env, client: w.steps.client, attempt: &attempt{}, ctx: t.Context(), by: effects.Chunk{Key: "k", Attempt: 1}}
	var all sync.WaitGroup
	write := func(stream string, value []byte) {
		all.Go(func() {
			if err := p.write(t.Context(), stream, value, 7); err != nil {
				t.Error(err)
			}
		})
	}
	collected := func(n int) {
		for deadline := time.Now().Add(10 * time.Second); ; {
			p.mu.Lock()
			got := len(p.pending)
			p.mu.Unlock()
			if got == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d chunks are pending, want %d", got, n)
			}
		}
	}
	write("a", []byte("1"))
	<-st.begun
	for range 400 {
		write("a", []byte("1"))
	}
	collected(400)
	for range 3 {
		write("b", make([]byte, 400<<10))
	}
	collected(403)
	close(st.hears)
	all.Wait()
	if closed := p.end(); closed != nil {
		t.Errorf("the streams %v are closed, want none", closed)
	}
	want := []printed{{"s:a", 1, 1, 1, 7}, {"s:a", 256, 2, 257, 7}, {"s:a", 144, 258, 401, 7}, {"s:b", 2, 1, 2, 7}, {"s:b", 1, 3, 3, 7}}
	if diff := cmp.Diff(want, st.printed); diff != "" {
		t.Errorf("publications (-want +got):\n%s", diff)
	}
}
