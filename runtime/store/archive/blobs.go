package archive

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// Blobs returns the blobs in the file as a store that can only be read. It returns nil if the file
// contains no blobs.
func (s *Store) Blobs() store.BlobStore {
	if len(s.blobs) == 0 {
		return nil
	}
	return blobs{s}
}

type blobs struct{ s *Store }

// Get returns a blob.
func (b blobs) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.s.enter(ctx); err != nil {
		return nil, err
	}
	kept := b.s.blobs[name]
	if kept == nil {
		return nil, store.ErrBlobNotFound
	}
	data := make([]byte, 0, kept.Size)
	for _, at := range kept.pieces {
		piece, err := b.s.body(at)
		if err != nil {
			return nil, err
		}
		data = append(data, piece...)
	}
	return data, nil
}

// List returns a page of the blobs. The time of a blob is zero, because the file does not contain it.
func (b blobs) List(ctx context.Context, prefix, after string, limit int) ([]store.Blob, error) {
	var page []store.Blob
	for _, name := range slices.Sorted(maps.Keys(b.s.blobs)) {
		if strings.HasPrefix(name, prefix) && name > after && len(page) < limit {
			page = append(page, store.Blob{Name: name, Size: b.s.blobs[name].Size})
		}
	}
	return page, b.s.enter(ctx)
}

// Put returns a *[store.ReadOnlyError].
func (b blobs) Put(context.Context, string, []byte) error { return b.s.refuse("write blobs") }

// Delete returns a *[store.ReadOnlyError].
func (b blobs) Delete(context.Context, ...string) error { return b.s.refuse("remove blobs") }
