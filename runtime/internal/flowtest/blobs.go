package flowtest

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Blobs is a blob store in memory.
type Blobs struct {
	// OnGet is called before a blob is read, if it is not nil. Its error is the result.
	OnGet func(ctx context.Context, name string) error
	// OnPut is called after a blob was stored, if it is not nil.
	OnPut func(name string) error

	clock store.Clock
	mu    sync.Mutex
	blobs map[string]blob
}

type blob struct {
	data []byte
	time time.Time
}

var _ store.BlobStore = (*Blobs)(nil)

// NewBlobs returns an empty blob store.
func NewBlobs(clock store.Clock) *Blobs { return &Blobs{clock: clock, blobs: map[string]blob{}} }

// Put implements [store.BlobStore].
func (b *Blobs) Put(_ context.Context, name string, data []byte) error {
	b.mu.Lock()
	b.blobs[name] = blob{bytes.Clone(data), b.clock.Now()}
	b.mu.Unlock()
	if b.OnPut != nil {
		return b.OnPut(name)
	}
	return nil
}

// Get implements [store.BlobStore].
func (b *Blobs) Get(ctx context.Context, name string) ([]byte, error) {
	if b.OnGet != nil {
		if err := b.OnGet(ctx, name); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.blobs[name]; ok {
		return bytes.Clone(kept.data), nil
	}
	return nil, store.ErrBlobNotFound
}

// Delete implements [store.BlobStore].
func (b *Blobs) Delete(_ context.Context, names ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		delete(b.blobs, name)
	}
	return nil
}

// List implements [store.BlobStore].
func (b *Blobs) List(_ context.Context, prefix, after string, limit int) ([]store.Blob, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var page []store.Blob
	for _, name := range slices.Sorted(maps.Keys(b.blobs)) {
		if strings.HasPrefix(name, prefix) && name > after && len(page) < limit {
			page = append(page, store.Blob{Name: name, Size: int64(len(b.blobs[name].data)), Time: b.blobs[name].time})
		}
	}
	return page, nil
}

// Names returns the names of all blobs.
func (b *Blobs) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.blobs))
}

// Offload makes the client of the world keep user data of more than above bytes in blobs.
func (w *World) Offload(blobs store.BlobStore, above int) {
	w.T.Helper()
	c, err := codec.New(codec.Config{Keys: codec.Keys(Key("k1")), Blobs: blobs, OffloadAbove: above})
	if err != nil {
		w.T.Fatal(err)
	}
	w.UseCodec(c)
}

// UseCodec replaces the client of the world by one with a codec.
func (w *World) UseCodec(c store.Codec) {
	before := w.Client
	w.Client = workflow.NewClient(&Between{Store: w.Store, ledger: w.ledger}, workflow.ClientConfig{Logger: w.logger(slog.LevelDebug, w.ledger), Codec: c})
	w.T.Cleanup(func() { closeClient(w.T, before) })
}

func closeClient(t *testing.T, c *workflow.Client) {
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
