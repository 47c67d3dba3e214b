package store

import (
	"context"
	"net/url"

	"github.com/flowgen/flowgen/internal/environ"
)

type (
	// UnknownVariableError reports an environment variable that begins with FLOWGEN_ but that no
	// program reads. All functions that read the environment return it.
	UnknownVariableError = environ.UnknownError

	// VariableError reports an environment variable that has no value, or a value that cannot be
	// used. All functions that read the environment return it.
	VariableError = environ.ValueError
)

// Location contains what is needed to find a store.
type Location struct {
	// URL is the URL of the store, such as "sqlite:orders.db" or
	// "redis://host:6379/0?prefix=orders"; see [Open].
	URL string `env:"FLOWGEN_STORE" secret:"url"`
	// Password is inserted into the URL, which must not contain another password.
	Password string `env:"FLOWGEN_STORE_PASSWORD" secret:"yes"`
}

// LocationFromEnv returns the location of a store in the environment variables FLOWGEN_STORE and
// FLOWGEN_STORE_PASSWORD. Either may be in a file whose path is in the variable with the suffix
// _FILE. Errors are *[UnknownVariableError] and *[VariableError], possibly joined.
func LocationFromEnv() (Location, error) {
	var l Location
	if err := environ.Load(&l); err != nil {
		return Location{}, err
	}
	return l, nil
}

// Complete returns the URL of the store with the password.
func (l Location) Complete() (string, error) {
	const name = "FLOWGEN_STORE"
	if l.URL == "" {
		return "", &VariableError{Name: name, What: "is not set", Want: "the URL of a store, such as sqlite:orders.db or redis://host:6379/0"}
	}
	if l.Password == "" {
		return l.URL, nil
	}
	u, err := url.Parse(l.URL)
	if err != nil || u.Host == "" {
		return "", &VariableError{Name: name, What: "cannot take the password of " + name + "_PASSWORD", Want: "a URL with a host, such as redis://host:6379/0"}
	}
	if _, has := u.User.Password(); has {
		return "", &VariableError{Name: name, What: "contains a password, and " + name + "_PASSWORD is set", Want: "one of them"}
	}
	u.User = url.UserPassword(u.User.Username(), l.Password)
	return u.String(), nil
}

// OpenFromEnv opens the store at [LocationFromEnv] as [Open] does. The program must import the
// package of the store.
func OpenFromEnv(ctx context.Context) (Store, error) {
	l, err := LocationFromEnv()
	if err != nil {
		return nil, err
	}
	at, err := l.Complete()
	if err != nil {
		return nil, err
	}
	return Open(ctx, at)
}
