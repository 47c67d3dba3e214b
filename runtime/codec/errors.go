package codec

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// KeyError reports that a key is missing or that the provider of keys failed. The payload can be
// opened when the provider returns the key again.
type KeyError struct {
	Key string // ID of the key; empty if the active key is meant
	Err error
}

// Error contains the ID of the key, the cause and the fix.
func (e *KeyError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("get the active key of payloads: %v: correct the key provider", e.Err)
	}
	return fmt.Sprintf("get key %s of payloads: %v: give this key to the key provider", e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

// Permanent returns true if the provider does not have the key, and false if the provider failed.
func (e *KeyError) Permanent() bool { return errors.Is(e.Err, ErrKeyNotFound) }

// DamagedError reports a sealed payload that cannot be opened: it was truncated, altered or moved
// from another place, or the secret of its key is a different one.
type DamagedError struct {
	Place  Place
	Key    string // ID of the key; empty if the payload is not encrypted or its header is damaged
	Reason string
}

// Error contains the place of the payload, the reason and the fix.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("open payload%s: %s: restore it from a backup%s", at(e.Place), e.Reason, orKey(e.Key))
}

// Permanent returns true.
func (e *DamagedError) Permanent() bool { return true }

func orKey(id string) string {
	if id == "" {
		return ""
	}
	return ", or correct the secret of key " + id
}

func at(p Place) string {
	if p.Owner == "" && p.Field == "" {
		return ""
	}
	return fmt.Sprintf(" %s of %s", p.Field, p.Owner)
}

// VersionError reports that a payload was sealed by a newer release.
type VersionError struct {
	Place Place
	Flags byte // the flags that this release does not know
}

// Error contains the place of the payload, the unknown flags and the fix.
func (e *VersionError) Error() string {
	return fmt.Sprintf("open payload%s: it has flags %#x, which this release does not have: use a newer release of flowgen", at(e.Place), e.Flags)
}

// Permanent returns true.
func (e *VersionError) Permanent() bool { return true }

// SizeError reports a payload that is larger than [Config.MaxSize].
type SizeError struct {
	Place     Place
	Size, Max int64
}

// Error contains the place of the payload, both sizes and the fix.
func (e *SizeError) Error() string {
	return fmt.Sprintf("payload%s has %d bytes, the codec permits %d: make it smaller, or increase MaxSize", at(e.Place), e.Size, e.Max)
}

// Permanent returns true.
func (e *SizeError) Permanent() bool { return true }

// BlobError reports that an offloaded payload could not be stored or loaded: the blob is missing or
// altered, or the blob store failed.
type BlobError struct {
	Name string // of the blob
	Err  error
}

// Error contains the name of the blob, the cause and the fix.
func (e *BlobError) Error() string {
	if errors.Is(e.Err, store.ErrNoBlobStore) {
		return fmt.Sprintf("blob %s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("blob %s: %v: restore the blob or correct the blob store", e.Name, e.Err)
}

// Unwrap returns the cause. It matches [ErrBlobNotFound] if the blob is missing.
func (e *BlobError) Unwrap() error { return e.Err }

// Permanent returns true if the blob is missing or altered, and false if the blob store failed.
func (e *BlobError) Permanent() bool {
	return errors.Is(e.Err, ErrBlobNotFound) || errors.Is(e.Err, errBlobAltered) || errors.Is(e.Err, store.ErrNoBlobStore)
}
