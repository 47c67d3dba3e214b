package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Store stores runs in memory. New and NewWith return one. All methods are safe for concurrent use.
type Store struct {
	clock   store.Clock
	parts   []*partition
	entries entries
	done    chan struct{} // closed by Close
	close   sync.Once
}

var (
	_ store.Store         = (*Store)(nil)
	_ store.Lister        = (*Store)(nil)
	_ store.Auditor       = (*Store)(nil)
	_ store.Inspector     = (*Store)(nil)
	_ store.StepDataStore = (*Store)(nil)
	_ store.Purger        = (*Store)(nil)
)

// Config configures a store. New uses the zero value.
type Config struct {
	// Clock is the source of all times; nil means store.SystemClock.
	Clock store.Clock
	// Partitions is the number of partitions, each with its own mutex. Values less than 1 mean 1.
	Partitions int
}

// New returns an empty store with one partition and the system clock.
func New() *Store { return NewWith(Config{}) }

// NewWith returns an empty store.
func NewWith(cfg Config) *Store {
	if cfg.Clock == nil {
		cfg.Clock = store.SystemClock
	}
	s := &Store{clock: cfg.Clock, entries: entries{of: map[string][]store.Entry{}}, done: make(chan struct{})}
	for n := range max(cfg.Partitions, 1) {
		s.parts = append(s.parts, newPartition(n, cfg.Clock, s.done))
	}
	return s
}

// Clock returns the clock of the store.
func (s *Store) Clock() store.Clock { return s.clock }

// Partitions returns the number of partitions.
func (s *Store) Partitions() int { return len(s.parts) }

// Close closes the store and discards its contents. Blocked calls and all later calls return
// store.ErrClosed. Closing twice is harmless.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.done) })
	return nil
}

// enter is called at the beginning of every operation. It returns an error if the store is closed
// or ctx has ended.
func (s *Store) enter(ctx context.Context) error {
	select {
	case <-s.done:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

func (s *Store) partitionOf(run event.RunID) *partition {
	if len(s.parts) == 1 {
		return s.parts[0]
	}
	return s.parts[int(run.Slot())%len(s.parts)]
}

// byPartition calls do for each i in [0, n). It holds the mutex of the partition of run(i). Each
// partition is locked once and its operations are executed in order, so that they are one action.
func (s *Store) byPartition(n int, run func(i int) event.RunID, do func(p *partition, i int)) {
	if len(s.parts) == 1 {
		p := s.parts[0]
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range n {
			do(p, i)
		}
		return
	}
	members := make(map[*partition][]int)
	for i := range n {
		p := s.partitionOf(run(i))
		members[p] = append(members[p], i)
	}
	for _, p := range s.parts {
		p.apply(members[p], do)
	}
}

func (p *partition) apply(members []int, do func(p *partition, i int)) {
	if len(members) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range members {
		do(p, i)
	}
}

func init() {
	store.Register("memory", func(_ context.Context, url string) (store.Store, error) {
		if url != "memory:" {
			return nil, fmt.Errorf("a store in memory takes no name: use %q", "memory:")
		}
		return New(), nil
	})
}
