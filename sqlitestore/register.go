package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// scheme is that of the URLs by which store.Open knows this package:
// "sqlite:" and the path of a file, as in "sqlite:orders.db", "sqlite:/var/lib/orders.db"
// and "sqlite:///var/lib/orders.db".
const scheme = "sqlite"

func init() {
	store.Register(scheme, func(_ context.Context, url string) (store.Store, error) {
		path, err := pathOf(url)
		if err != nil {
			return nil, err
		}
		return Open(path)
	})
	store.RegisterExists(scheme, func(_ context.Context, url string) error {
		path, err := pathOf(url)
		if err != nil {
			return err
		}
		return exists(path)
	})
}

// exists returns an error unless there is a file with something in it.
func exists(path string) error {
	path, err := checkPath(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return &store.MissingError{What: path}
	}
	return err
}

// pathOf returns the file that a URL names. Behind two slashes a URL names a host, and a
// file has none: "sqlite://orders.db" is not taken for a file in the root directory.
func pathOf(url string) (string, error) {
	path := strings.TrimPrefix(url, scheme+":")
	rest, host := strings.CutPrefix(path, "//")
	switch {
	case !host:
		return path, nil
	case strings.HasPrefix(rest, "/"):
		return rest, nil
	}
	return "", fmt.Errorf("two slashes stand before a host, and a file has none: write %s:%s for a file beside the program, or %s:///%s for one in the root directory", scheme, rest, scheme, rest)
}
