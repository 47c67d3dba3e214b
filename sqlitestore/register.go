package sqlitestore

import (
	"context"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// scheme is that of the URLs by which store.Open knows this package:
// "sqlite:" and the path of a file, as in "sqlite:orders.db" and
// "sqlite:/var/lib/orders.db".
const scheme = "sqlite"

func init() {
	store.Register(scheme, func(_ context.Context, url string) (store.Store, error) {
		return Open(strings.TrimPrefix(url, scheme+":"))
	})
}
