package redisstore

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

// schemes are those of the URLs by which store.Open knows this package. Open says
// what they mean.
var schemes = []string{"redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"}

func init() {
	for _, scheme := range schemes {
		store.RegisterMigration(scheme, migrateURL)
		store.Register(scheme, func(_ context.Context, url string) (store.Store, error) { return Open(url) })
	}
}
