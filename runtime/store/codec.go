package store

import "context"

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
