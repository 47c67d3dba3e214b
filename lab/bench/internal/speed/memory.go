package speed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// memoryTarget measures memstore.
type memoryTarget struct{}

func (memoryTarget) name() string { return "memory" }
func (memoryTarget) close() error { return nil }

func (memoryTarget) fresh(context.Context) (bed, error) {
	return &memoryBed{st: memstore.New(), logs: map[string]*memoryLog{}}, nil
}

type memoryBed struct {
	st   *memstore.Store
	mu   sync.Mutex
	logs map[string]*memoryLog
}

// memoryLog is a log that the measurement of the limit uses.
type memoryLog struct {
	last   event.CommitID
	frames [][]byte
}

var errPosition = errors.New("the log does not end where it should")

func (b *memoryBed) store() store.Store                   { return b.st }
func (b *memoryBed) usage(context.Context) (usage, error) { return usage{}, nil }
func (b *memoryBed) discard() error                       { return b.st.Close() }

// bytes returns the memory of the whole process. It includes the store.
func (b *memoryBed) bytes(context.Context) (int64, error) { return int64(inUse()), nil }

func (b *memoryBed) append(_ context.Context, rows []*row, frame []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rows {
		l := b.logs[r.id]
		if l == nil {
			l = &memoryLog{}
			b.logs[r.id] = l
		}
		if l.last != r.prev {
			return fmt.Errorf("append to log %s: %w", r.id, errPosition)
		}
		l.last, l.frames = r.cid, append(l.frames, slices.Clone(frame))
	}
	return nil
}

func (b *memoryBed) drop(_ context.Context, rows []*row) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range rows {
		if got := uint64(len(b.logs[r.id].frames)); got != r.n {
			return fmt.Errorf("log %s has %d frames, want %d", r.id, got, r.n)
		}
		delete(b.logs, r.id)
	}
	return nil
}

// inUse returns the number of heap and stack bytes that are in use.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
