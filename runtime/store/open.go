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

// Register makes a kind of store available to [Open] under the scheme of its URLs. The package of a
// store calls it from init, and a program imports the packages of the stores that it uses. Register
// panics if the scheme is already registered.
func Register(scheme string, open func(ctx context.Context, url string) (Store, error)) {
	register(drivers.open, "Register", scheme, open, open == nil)
}

// register records f under a scheme. name is the exported function that calls register. missing
// reports whether f is nil.
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

// RegisterExists registers the function with which [OpenExisting] checks whether a store with the
// given scheme exists. If the store does not exist, exists must return a *[MissingError]. It must
// not change anything. RegisterExists panics if the scheme already has such a function.
func RegisterExists(scheme string, exists func(ctx context.Context, url string) error) {
	register(drivers.exists, "RegisterExists", scheme, exists, exists == nil)
}

// Schemes returns the registered schemes, sorted.
func Schemes() []string {
	drivers.RLock()
	defer drivers.RUnlock()
	return slices.Sorted(maps.Keys(drivers.open))
}

// Open opens the store at a URL, such as "memory:" or "sqlite:orders.db". A program must import the
// package of the store, at least with a blank identifier, so that its scheme is registered:
//
//	import _ "github.com/flowgen/flowgen/sqlitestore"
//
// A URL may contain a password, so errors contain only its scheme.
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

// OpenExisting is like [Open] but never creates a store. It is for programs that inspect a store.
// If no store exists at the URL, perhaps because the URL is wrong, it returns a *[MissingError]. If
// the kind of store has no function from RegisterExists, OpenExisting is the same as Open.
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

// named returns the part of an error text that contains the unknown scheme of a URL. It returns an
// empty string if the scheme may be part of a user name or a password. rest is the URL after the
// scheme.
func named(scheme, rest string) string {
	if !plain.MatchString(scheme) || strings.Contains(rest, "@") && !strings.HasPrefix(rest, "//") {
		return ""
	}
	return fmt.Sprintf(" of kind %q", scheme)
}

var plain = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
