package memstore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

func init() {
	store.Register("memory", func(_ context.Context, url string) (store.Store, error) {
		if url != "memory:" {
			return nil, fmt.Errorf("a store in memory has no name: use %q", "memory:")
		}
		return New(), nil
	})
}
