package codec

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// KMS is a key management service. It decrypts the secrets of keys, which are stored encrypted
// ("wrapped") outside of it.
type KMS interface {
	// Unwrap decrypts the secret of the key with an ID. The result has 32 bytes.
	Unwrap(ctx context.Context, keyID string, wrapped []byte) ([]byte, error)
}

// WrappedKey is a key whose secret was encrypted by a KMS.
type WrappedKey struct {
	ID      string
	Wrapped []byte
}

const (
	unwrapTimeout = 10 * time.Second // for a call of Unwrap
	unwrapPause   = time.Second      // between a failed call and the next
)

// KeysFromKMS returns a provider of keys whose secrets a KMS decrypts. The first key seals
// payloads, all keys open them. Each key is decrypted when it is first needed, and is then kept in
// memory. A call of the KMS takes at most 10 seconds. After a failed call, the key is not tried
// again for a second, during which the provider returns the same error. [New] returns an error if a
// key is invalid or an ID occurs twice.
func KeysFromKMS(kms KMS, active WrappedKey, others ...WrappedKey) KeyProvider {
	p := &kmsKeys{kms: kms}
	for _, k := range append([]WrappedKey{active}, others...) {
		p.keys = append(p.keys, &kmsKey{WrappedKey: k, calls: make(chan call, 1)})
		p.keys[len(p.keys)-1].calls <- call{}
	}
	return p
}

type kmsKeys struct {
	kms  KMS
	keys []*kmsKey
}

// kmsKey is a key that was decrypted, or will be.
type kmsKey struct {
	WrappedKey
	key   atomic.Pointer[Key]
	calls chan call // the last call; empty during a call
}

// call is a failed call of the KMS, or the zero value.
type call struct {
	err error
	at  time.Time
}

// Check returns an error if a key is invalid or an ID occurs twice.
func (p *kmsKeys) Check() error {
	if p.kms == nil {
		return errors.New("keys from a KMS: the KMS is nil")
	}
	var keys keyList
	for _, k := range p.keys {
		if len(k.Wrapped) == 0 {
			return fmt.Errorf("key %s from a KMS has no wrapped secret", k.ID)
		}
		keys = append(keys, Key{ID: k.ID, Secret: [32]byte{1}})
	}
	return keys.Check()
}

// Active returns the first key.
func (p *kmsKeys) Active(ctx context.Context) (Key, error) { return p.unwrap(ctx, p.keys[0]) }

// Key returns the key with an ID.
func (p *kmsKeys) Key(ctx context.Context, id string) (Key, error) {
	for _, k := range p.keys {
		if k.ID == id {
			return p.unwrap(ctx, k)
		}
	}
	return Key{}, ErrKeyNotFound
}

// IDs returns the IDs of the keys.
func (p *kmsKeys) IDs() []string {
	ids := make([]string, len(p.keys))
	for i, k := range p.keys {
		ids[i] = k.ID
	}
	return ids
}

// unwrap returns a key. At most one call of the KMS for the key is in progress.
func (p *kmsKeys) unwrap(ctx context.Context, k *kmsKey) (Key, error) {
	if key := k.key.Load(); key != nil {
		return *key, nil
	}
	var last call
	select {
	case last = <-k.calls:
	case <-ctx.Done():
		return Key{}, &KeyError{Key: k.ID, Err: ctx.Err()}
	}
	defer func() { k.calls <- last }()
	if key := k.key.Load(); key != nil {
		return *key, nil
	}
	if last.err != nil && time.Since(last.at) < unwrapPause {
		return Key{}, last.err
	}
	key, err := p.call(ctx, k)
	if err != nil {
		err = &KeyError{Key: k.ID, Err: fmt.Errorf("unwrap it: %w", err)}
		if ctx.Err() == nil { // otherwise the caller is the cause
			last = call{err, time.Now()}
		}
		return Key{}, err
	}
	k.key.Store(&key)
	return key, nil
}

func (p *kmsKeys) call(ctx context.Context, k *kmsKey) (Key, error) {
	ctx, cancel := context.WithTimeout(ctx, unwrapTimeout)
	defer cancel()
	secret, err := p.kms.Unwrap(ctx, k.ID, k.Wrapped)
	if err != nil {
		return Key{}, err
	}
	key := Key{ID: k.ID}
	if len(secret) != len(key.Secret) {
		return Key{}, fmt.Errorf("the KMS returned a secret of %d bytes, want %d", len(secret), len(key.Secret))
	}
	copy(key.Secret[:], secret)
	return key, key.check()
}
