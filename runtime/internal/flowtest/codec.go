package flowtest

import (
	"context"
	"crypto/sha256"
	"flag"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sealing makes the clients of all tests seal user data.
var sealing = flag.Bool("codec", false, "seal the user data of all tests")

// Key returns a key whose secret is derived from its ID.
func Key(id string) codec.Key { return codec.Key{ID: id, Secret: sha256.Sum256([]byte(id))} }

// Ring is a provider whose keys can be changed. The first key is the active one.
type Ring struct {
	mu  sync.Mutex
	ids []string
}

// Set replaces the keys.
func (r *Ring) Set(ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = ids
}

// IDs returns the IDs of the keys.
func (r *Ring) IDs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// Active returns the first key.
func (r *Ring) Active(context.Context) (codec.Key, error) { return Key(r.IDs()[0]), nil }

// Key returns a key by its ID.
func (r *Ring) Key(_ context.Context, id string) (codec.Key, error) {
	if !slices.Contains(r.IDs(), id) {
		return codec.Key{}, codec.ErrKeyNotFound
	}
	return Key(id), nil
}

// WithKeys returns a codec with these keys, and the provider of the keys.
func WithKeys(t *testing.T, ids ...string) (*codec.Codec, *Ring) {
	t.Helper()
	keys := &Ring{ids: ids}
	c, err := codec.New(codec.Config{Keys: keys})
	Order(t, err)
	return c, keys
}

var sharedCodec = sync.OnceValue(func() *codec.Codec {
	c, err := codec.New(codec.Config{Keys: codec.Keys(Key("k1"))})
	if err != nil {
		panic("flowtest: " + err.Error())
	}
	return c
})

// testCodec returns the codec of a test's client: its own, or a shared one if -codec is set.
func testCodec(own store.Codec) store.Codec {
	if own == nil && *sealing {
		return sharedCodec()
	}
	return own
}

// NewClient returns a client that can read what the clients of other tests' worlds have written: it
// has the codec that they share, unless cfg has one.
func NewClient(st store.Store, cfg workflow.ClientConfig) *workflow.Client {
	cfg.Codec = testCodec(cfg.Codec)
	return workflow.NewClient(st, cfg)
}

// With returns the world with a client of its own that has the codec. Workers that it starts have the
// codec as well.
func (w *World) With(c store.Codec) *World {
	other := *w
	other.codec, other.ledger = c, w.ledger.another()
	other.Client = workflow.NewClient(&Between{Store: w.Store, ledger: other.ledger}, workflow.ClientConfig{Logger: w.logger(slog.LevelInfo, other.ledger), Codec: c})
	w.T.Cleanup(func() { _ = other.Client.Close() })
	return &other
}

// opened returns the store of the world as its client sees it, but without the checks of the client.
func (w *World) opened() store.Store {
	if w.codec == nil {
		return w.Store
	}
	st, err := sealed.New(w.Store, w.codec)
	Order(w.T, err)
	return st
}
