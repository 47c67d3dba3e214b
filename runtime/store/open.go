package store

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var drivers = struct {
	sync.RWMutex
	open   map[string]func(ctx context.Context, url string) (Store, error)
	exists map[string]func(ctx context.Context, url string) error
}{
	open:   map[string]func(context.Context, string) (Store, error){},
	exists: map[string]func(context.Context, string) error{},
}

// Register makes a kind of store known to [Open] by the scheme of its URLs. The
// packages of the stores call it; a program imports those it wants. It panics if
// the scheme is taken.
func Register(scheme string, open func(ctx context.Context, url string) (Store, error)) {
	register(drivers.open, "Register", scheme, open, open == nil)
}

// register notes a function under a scheme, for the exported function of that name.
func register[F any](known map[string]F, name, scheme string, f F, missing bool) {
	drivers.Lock()
	defer drivers.Unlock()
	if missing {
		panic("store: " + name + ": the function is nil")
	}
	if _, taken := known[scheme]; taken {
		panic("store: " + name + ": scheme " + scheme + " is taken")
	}
	known[scheme] = f
}

// RegisterExists makes known to [OpenExisting] how it is found out whether a store of a scheme was made: exists
// returns a *[MissingError] if not, and changes nothing. It panics if that is known already.
func RegisterExists(scheme string, exists func(ctx context.Context, url string) error) {
	register(drivers.exists, "RegisterExists", scheme, exists, exists == nil)
}

// Schemes returns the schemes that are known, sorted.
func Schemes() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.open))
}

// Open opens the store that a URL names, such as "memory:" or
// "sqlite:orders.db". A scheme is known once the package of its store is
// imported, if only for that:
//
//	import _ "github.com/flowgen/flowgen/sqlitestore"
//
// A URL may hold a password, so no error shows more of it than the scheme.
func Open(ctx context.Context, url string) (Store, error) {
	scheme, rest, ok := strings.Cut(url, ":")
	drivers.RLock()
	open := drivers.open[scheme]
	drivers.RUnlock()
	if !ok || open == nil {
		return nil, fmt.Errorf("open store%s: no such kind of store: known are %s; is the package of the store imported?",
			named(scheme, rest), strings.Join(Schemes(), ", "))
	}
	s, err := open(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open store of kind %q: %w", scheme, err)
	}
	return s, nil
}

// OpenExisting is [Open] for those who look at what a program has stored: where nothing was stored yet, perhaps
// because the URL is wrong, the error is a *[MissingError], and nothing is made there. A kind of store that does
// not say whether it exists is opened as by Open.
func OpenExisting(ctx context.Context, url string) (Store, error) {
	scheme, _, _ := strings.Cut(url, ":")
	drivers.RLock()
	exists := drivers.exists[scheme]
	drivers.RUnlock()
	if exists != nil {
		if err := exists(ctx, url); err != nil {
			return nil, fmt.Errorf("open store of kind %q: %w", scheme, err)
		}
	}
	return Open(ctx, url)
}

// named returns the scheme of a URL that no store knows, for an error: nothing if it
// may be a part of a user or a password that stands where a scheme belongs.
func named(scheme, rest string) string {
	if !plain.MatchString(scheme) || strings.Contains(rest, "@") && !strings.HasPrefix(rest, "//") {
		return ""
	}
	return fmt.Sprintf(" of kind %q", scheme)
}

var plain = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
