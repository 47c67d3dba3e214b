package codec

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// KeyProvider returns the keys of payloads. Its methods are called for each payload, possibly
// concurrently, so that a provider of remote keys must cache them. A key must not change its
// secret: a new secret needs a new ID.
type KeyProvider interface {
	// Active returns the key that seals payloads.
	Active(ctx context.Context) (Key, error)
	// Key returns the key with an ID. If there is none, the error matches [ErrKeyNotFound].
	Key(ctx context.Context, id string) (Key, error)
}

// ErrKeyNotFound reports that a provider does not have a key.
var ErrKeyNotFound = errors.New("key not found")

// Key is a secret with a name. Its secret does not appear when a key is printed, logged or encoded
// as JSON.
type Key struct {
	ID     string // 1–64 letters, digits, '-', '_' and '.'; stored with each payload
	Secret [32]byte
}

// NewKey returns a key with a random secret.
func NewKey(id string) (Key, error) {
	k := Key{ID: id}
	rand.Read(k.Secret[:])
	return k, k.check()
}

// ParseKey parses the form that [Key.Text] returns.
func ParseKey(text string) (Key, error) {
	id, secret, ok := strings.Cut(strings.TrimSpace(text), " ")
	if !ok {
		return Key{}, errors.New("parse key: it has no space: want the form ID BASE64")
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(secret))
	k := Key{ID: id}
	if err != nil || len(b) != len(k.Secret) { // err contains a part of the secret
		return Key{}, fmt.Errorf("parse key: its secret is invalid: want base64 of %d bytes", len(k.Secret))
	}
	copy(k.Secret[:], b)
	return k, k.check()
}

// Text returns the key as a line of a file of keys, "ID BASE64". It contains the secret.
func (k Key) Text() string {
	return k.ID + " " + base64.StdEncoding.EncodeToString(k.Secret[:])
}

// String returns the ID of the key, such as "key k1".
func (k Key) String() string { return "key " + k.ID }

// GoString is like String.
func (k Key) GoString() string { return k.String() }

// Format writes the result of String for all verbs.
func (k Key) Format(s fmt.State, _ rune) { fmt.Fprint(s, k.String()) }

// LogValue returns the ID of the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.ID) }

// MarshalText returns the ID of the key.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.ID), nil }

// check returns an error if the key cannot be used. It does not contain the ID, which might be a
// secret at the wrong position.
func (k Key) check() error {
	switch {
	case !validID(k.ID):
		return errors.New("the ID of a key is invalid: want 1 to 64 letters, digits, '-', '_' and '.'")
	case k.Secret == [32]byte{}:
		return fmt.Errorf("the secret of key %s is empty: want 32 random bytes", k.ID)
	}
	return nil
}

func validID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 64
}

// Keys returns a provider of keys that never change. The first key seals payloads, all keys open
// them. [New] returns an error if a key is invalid or an ID occurs twice.
func Keys(active Key, others ...Key) KeyProvider {
	return keyList(append([]Key{active}, others...))
}

type keyList []Key

func (l keyList) Active(context.Context) (Key, error) { return l[0], nil }

func (l keyList) Key(_ context.Context, id string) (Key, error) {
	for i := range l {
		if l[i].ID == id {
			return l[i], nil
		}
	}
	return Key{}, ErrKeyNotFound
}

// IDs returns the IDs of the keys.
func (l keyList) IDs() []string {
	ids := make([]string, len(l))
	for i := range l {
		ids[i] = l[i].ID
	}
	return ids
}

// Check returns an error if a key is invalid or an ID occurs twice.
func (l keyList) Check() error {
	seen := map[string]bool{}
	for _, k := range l {
		if err := k.check(); err != nil {
			return err
		}
		if seen[k.ID] {
			return fmt.Errorf("key %s is there twice: remove one", k.ID)
		}
		seen[k.ID] = true
	}
	return nil
}
