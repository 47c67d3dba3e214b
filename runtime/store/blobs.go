package store

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
)

// ErrNoBlobStore reports that data are kept outside of the store, and that the program has no blob
// store.
var ErrNoBlobStore = errors.New("no blob store is configured: set codec.Config.Blobs, or for flowctl FLOWGEN_CODEC_BLOBS")

// Stored returns the store that keeps the data of s in their stored form, and the store of its large
// data. If s does not use a codec, the results are s itself and nil. If its codec offloads no data, the
// BlobStore is nil.
func Stored(s Store) (Store, BlobStore) {
	sealing, ok := As[interface{ Stored() (Store, Codec) }](s)
	if !ok {
		return s, nil
	}
	stored, codec := sealing.Stored()
	if o, ok := codec.(Offloader); ok {
		return stored, o.Blobs()
	}
	return stored, nil
}

// CodecOf returns the codec of a store, or nil if it does not use one.
func CodecOf(s Store) Codec {
	sealing, ok := As[interface{ Stored() (Store, Codec) }](s)
	if !ok {
		return nil
	}
	_, codec := sealing.Stored()
	return codec
}

// BlobNames collects the names of the blobs that contain data of a chain. It requires no key.
type BlobNames struct {
	Chain event.RunID
	Names map[string]bool
}

// Frame adds the blobs of a frame in its stored form.
func (b *BlobNames) Frame(frame []byte) error {
	_, err := event.ConvertFrame(frame, b.content)
	return err
}

// Item adds the blobs of an item in its stored form.
func (b *BlobNames) Item(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	_, err := event.ConvertItem(body, b.content)
	return err
}

// Data adds the blob of data in their stored form.
func (b *BlobNames) Data(data []byte) {
	s, err := event.ReadSealed(data)
	if err != nil || s.Blob == "" {
		return
	}
	if b.Names == nil {
		b.Names = map[string]bool{}
	}
	b.Names[string(b.Chain)+"/"+s.Blob] = true
}

func (b *BlobNames) content(out []byte, _ event.Part, content []byte) ([]byte, error) {
	b.Data(content)
	return append(out, content...), nil
}
