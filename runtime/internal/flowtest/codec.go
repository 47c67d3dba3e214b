package flowtest

import (
	"crypto/sha256"
	"flag"
	"sync"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
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
