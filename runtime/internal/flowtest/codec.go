package flowtest

import (
	"crypto/sha256"
	"flag"
	"log/slog"
	"sync"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sealing makes the clients of all tests seal user data.
var sealing = flag.Bool("codec", false, "seal the user data of all tests")

// Key returns a key whose secret is derived from its ID.
func Key(id string) codec.Key { return codec.Key{ID: id, Secret: sha256.Sum256([]byte(id))} }

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
