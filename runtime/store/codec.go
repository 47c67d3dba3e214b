package store

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Codec converts user data to the form in which a store keeps them, and back. It may encrypt and
// compress them and may keep large ones outside of the store. See package codec.
type Codec interface {
	// Seal returns the stored form of data, which is not empty. The stored form begins with
	// event.SealedMark, or is data itself.
	Seal(ctx context.Context, at Place, data []byte) ([]byte, error)
	// Open returns the data of a stored form. It returns data that no codec has sealed unchanged. An
	// error with a method Permanent that returns true blocks the run. Other errors are treated like
	// an outage of the store.
	Open(ctx context.Context, at Place, stored []byte) ([]byte, error)
	// Keys identifies the set of keys that Open has. Workers with different sets try a run
	// independently of each other.
	Keys() string
}

// Place is the place of user data in a store. Data that were moved to another place cannot be
// opened.
type Place struct {
	Owner string // the run, item, chain or space that contains the data
	Field string // path of the data within the owner
	// Blobs returns the prefix of the names of data that are kept outside of the store: the ID of the
	// chain. It is nil if the data must be kept in the store. The prefix is not authenticated.
	Blobs func(ctx context.Context) (string, error)
}

// ChunkPlace is the place of the chunks of a stream, which has the name under which the store keeps
// it.
func ChunkPlace(chain event.RunID, stream string) Place {
	return Place{Owner: string(chain), Field: "stream/" + stream}
}

// ReasonPlace is the place of the reason in the journal entry with a key.
func ReasonPlace(key string) Place { return Place{Owner: JournalSpace, Field: key + "/w"} }

// Offloader is a Codec that can keep large data in a BlobStore.
type Offloader interface {
	Codec
	// Blobs returns the store of large data. It returns nil if the codec keeps all data in the store
	// of the runs.
	Blobs() BlobStore
	// MaxSize is the number of bytes above which Seal and Open refuse data.
	MaxSize() int
}

// BlobStore stores data that are kept outside of a store. Names have the form PREFIX/HEX, where HEX
// is the SHA-256 of the data. Methods may be called concurrently.
type BlobStore interface {
	// Put stores a blob durably before it returns. If the blob exists, Put sets its time to now, so
	// that no worker removes it before the commit that will refer to it.
	Put(ctx context.Context, name string, data []byte) error
	// Get returns a blob, whose bytes the caller may change. If there is none, the error matches
	// [ErrBlobNotFound].
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
	Time time.Time // when it was stored last
}

// ErrBlobNotFound reports that a blob store does not have a blob.
var ErrBlobNotFound = errors.New("blob not found")
