package codec

import (
	"context"
	"errors"
	"time"
)

// BlobStore stores offloaded payloads. Names have the form PREFIX/HEX, where HEX is the SHA-256 of
// the data. Methods may be called concurrently.
type BlobStore interface {
	// Put stores a blob durably before it returns. It does nothing if the blob exists.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns a blob. If there is none, the error matches [ErrBlobNotFound].
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete removes blobs. It ignores names that do not exist.
	Delete(ctx context.Context, names ...string) error
	// List returns at most limit blobs whose names begin with prefix and follow after, sorted by
	// name.
	List(ctx context.Context, prefix, after string, limit int) ([]Blob, error)
}

// Blob describes a stored blob.
type Blob struct {
	Name string
	Size int64
	Time time.Time // when it was stored
}

// ErrBlobNotFound reports that a blob store does not have a blob.
var ErrBlobNotFound = errors.New("blob not found")
