// Package codec encrypts, compresses and offloads the payloads of runs: inputs, arguments, results,
// messages, failures and all other values that a store keeps for the user's code.
//
// A [Codec] converts a payload to its stored form ([Codec.Seal]) and back ([Codec.Open]). Stores
// keep the stored form and need no key. [IsSealed] and [Inspect] describe stored forms without a
// key.
//
//	keys, err := codec.KeysFromFile("/etc/orders/keys")
//	c, err := codec.New(codec.Config{Keys: keys})
//
// Encrypted payloads are bound to the [Place] where they stand: AES-256-GCM authenticates it, so a
// payload that was moved to another run or field cannot be opened. Each payload has a key of its
// own, derived from the secret of the active key and a salt. The salt is computed from the payload
// and its place: equal payloads at equal places have equal stored forms, so that a repeated commit
// is recognized, and equal payloads at different places differ.
//
// To rotate keys, add a new key, then make it the active one. Keep old keys as long as payloads
// need them. Compression reveals something about the content through the size; set
// [Config.CompressAbove] to a negative number if payloads combine secrets with the input of
// attackers.
//
// Reading order: [Codec], [Place], [KeyProvider], [BlobStore], then format.go.
package codec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// Codec converts payloads to their stored form and back. Its methods may be called concurrently.
type Codec struct {
	keys          KeyProvider
	ciphers       ciphers
	compressAbove int
	blobs         BlobStore
	offloadAbove  int
	maxSize       int
}

// Config configures a codec. The zero value compresses payloads and does nothing else.
type Config struct {
	// Keys provides the keys that encrypt payloads. If it is nil, payloads are not encrypted.
	Keys KeyProvider
	// CompressAbove is the number of bytes above which payloads are compressed if that makes them
	// smaller. Payloads of up to 4 KiB are compressed only if they repeat themselves. The default is
	// 512. If it is negative, payloads are not compressed.
	CompressAbove int
	// Blobs stores the payloads whose stored form has more than OffloadAbove bytes. If it is nil,
	// payloads are not offloaded.
	Blobs BlobStore
	// OffloadAbove is the number of bytes of the stored form above which a payload is offloaded.
	// The default is 256 KiB.
	OffloadAbove int
	// MaxSize is the number of bytes above which payloads are neither sealed nor opened. The
	// default is 256 MiB.
	MaxSize int
}

// Place is where a payload stands. It is authenticated: a payload that was moved to another place
// cannot be opened.
type Place = store.Place

var _ store.Offloader = (*Codec)(nil)

// New returns a codec. If cfg.Keys has a method Check() error, New returns its error.
func New(cfg Config) (*Codec, error) {
	if cfg.CompressAbove == 0 {
		cfg.CompressAbove = 512
	}
	if cfg.OffloadAbove == 0 {
		cfg.OffloadAbove = 256 << 10
	}
	if cfg.MaxSize == 0 {
		cfg.MaxSize = 256 << 20
	}
	if cfg.OffloadAbove < 0 || cfg.MaxSize < 0 {
		return nil, errors.New("new codec: OffloadAbove and MaxSize must not be negative: set them to 0 for their defaults")
	}
	if c, ok := cfg.Keys.(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("new codec: %w", err)
		}
	}
	return &Codec{
		keys: cfg.Keys, compressAbove: cfg.CompressAbove, blobs: cfg.Blobs, offloadAbove: cfg.OffloadAbove, maxSize: cfg.MaxSize,
	}, nil
}

// Seal returns the stored form of a payload. Empty input stays empty, and a payload that is neither
// encrypted nor compressed nor offloaded is returned unchanged. If Seal returns a form with a blob,
// the blob is stored. Errors are *[KeyError], *[SizeError] and *[BlobError].
func (c *Codec) Seal(ctx context.Context, at Place, plain []byte) ([]byte, error) {
	if len(plain) == 0 {
		return plain, nil
	}
	return c.AppendSeal(ctx, nil, at, plain)
}

// AppendSeal is like [Codec.Seal] and appends the stored form to b.
func (c *Codec) AppendSeal(ctx context.Context, b []byte, at Place, plain []byte) ([]byte, error) {
	if len(plain) == 0 {
		return b, nil
	}
	if len(plain) > c.maxSize {
		return nil, &SizeError{Place: at, Size: int64(len(plain)), Max: int64(c.maxSize)}
	}
	var flags byte
	var key Key
	if c.keys != nil {
		var err error
		if key, err = c.active(ctx); err != nil {
			return nil, err
		}
		flags |= encrypted
	}
	var room [maxHeader]byte
	header := appendHeader(room[:0], flags, len(plain), key.ID)
	var out []byte
	body := plain
	compresses := c.compressAbove >= 0 && len(plain) > c.compressAbove && (len(plain) > smallSize || repeats(plain))
	if compresses && len(plain) <= wholesale {
		scratch := getBuffer()
		defer putBuffer(scratch)
		*scratch = compress(plain, (*scratch)[:0])
		if len(*scratch) < len(plain) {
			flags, body = flags|compressed, *scratch
		}
	} else if compresses {
		out = compress(plain, append(make([]byte, 0, len(header)+mostCompressed(len(plain))+overhead(at)), header...))
		if len(out)-len(header) < len(plain) {
			flags, body = flags|compressed, out[len(header):]
		}
	}
	bodySize := len(body)
	if flags&encrypted != 0 {
		bodySize += tagSize
	}
	if c.blobs != nil && at.Blobs != nil && len(header)+bodySize > c.offloadAbove {
		flags |= offloaded
	}
	if flags == 0 && plain[0] != marker {
		return append(b, plain...), nil
	}
	header[1] = flags
	if out == nil && flags&offloaded != 0 {
		out = make([]byte, 0, len(header)+len(body)+overhead(at))
	} else if out == nil {
		b = slices.Grow(b, len(header)+len(body)+overhead(at))
		out = b[len(b):] // where it is appended
	}
	out = append(append(out[:0], header...), body...) // the body may be there already
	if flags&encrypted != 0 {
		out = c.ciphers.of(key).seal(at, out, len(header))
	} else {
		sum := checksum(at, out[:len(header)-saltSize], body)
		copy(out[len(header)-saltSize:], sum[:])
	}
	if flags&offloaded == 0 {
		return append(b, out...), nil
	}
	return c.offload(ctx, b, at, out[:len(header)], out[len(header):])
}

// offload stores the body as a blob and appends the form that refers to it to b.
func (c *Codec) offload(ctx context.Context, b []byte, at Place, header, body []byte) ([]byte, error) {
	hash := sha256.Sum256(body)
	name, err := blobName(ctx, at, hash[:])
	if err != nil {
		return nil, err
	}
	if err := c.blobs.Put(ctx, name, body); err != nil {
		return nil, &BlobError{Name: name, Err: err}
	}
	return appendReference(append(b, header...), hash, len(body)), nil
}

// Open returns the payload of a stored form. Input that is not sealed is returned unchanged. The
// error is a *[DamagedError], *[VersionError], *[SizeError], *[KeyError] or *[BlobError].
func (c *Codec) Open(ctx context.Context, at Place, stored []byte) ([]byte, error) {
	if !IsSealed(stored) {
		return stored, nil
	}
	s, err := parse(at, stored)
	if err != nil {
		return nil, err
	}
	if s.plainSize > uint64(c.maxSize) {
		return nil, &SizeError{Place: at, Size: int64(s.plainSize), Max: int64(c.maxSize)}
	}
	var key Key
	if s.has(encrypted) { // before the blob is loaded, because this needs no key of a missing blob
		if key, err = c.key(ctx, s.key); err != nil {
			return nil, err
		}
	}
	if s.has(offloaded) {
		if s.body, err = c.load(ctx, at, &s); err != nil {
			return nil, err
		}
	}
	scratch := getBuffer()
	defer putBuffer(scratch)
	body, reason := s.body, ""
	if s.has(encrypted) {
		var to []byte // the result must not be in the scratch buffer
		switch {
		case s.has(offloaded):
			to = s.body[:0] // the blob is not used any longer
		case s.has(compressed):
			to = (*scratch)[:0]
		}
		if body, reason = c.ciphers.of(key).open(at, &s, to); s.has(compressed) && !s.has(offloaded) && reason == "" {
			*scratch = body
		}
	} else if sum := checksum(at, s.prefix(), body); string(sum[:]) != string(s.salt) {
		reason = "its checksum is wrong: it was altered or moved from another place"
	}
	if reason == "" && s.has(compressed) {
		body, reason = decompress(body, int(s.plainSize))
	}
	if reason != "" {
		return nil, &DamagedError{Place: at, Key: s.key, Reason: reason}
	}
	return body, nil
}

// load returns the blob of an offloaded payload.
func (c *Codec) load(ctx context.Context, at Place, s *sealed) ([]byte, error) {
	name, err := blobName(ctx, at, s.hash)
	if err != nil {
		return nil, err
	}
	if c.blobs == nil {
		return nil, &BlobError{Name: name, Err: store.ErrNoBlobStore}
	}
	data, err := c.blobs.Get(ctx, name)
	if err != nil {
		return nil, &BlobError{Name: name, Err: err}
	}
	if hash := sha256.Sum256(data); uint64(len(data)) != s.blobSize || string(hash[:]) != string(s.hash) {
		return nil, &BlobError{Name: name, Err: fmt.Errorf("%w: its %d bytes are not the %d bytes that were stored", errBlobAltered, len(data), s.blobSize)}
	}
	return data, nil
}

var errBlobAltered = errors.New("the blob was altered")

func blobName(ctx context.Context, at Place, hash []byte) (string, error) {
	name := hex.EncodeToString(hash)
	if at.Blobs == nil {
		return name, nil
	}
	prefix, err := at.Blobs(ctx)
	if err != nil {
		return "", fmt.Errorf("blob %s: %w", name, err)
	}
	return prefix + "/" + name, nil
}

// Keys returns the sorted IDs of the keys, if the provider has a method IDs() []string, and otherwise
// the ID of the active key. Workers with different keys try a run that cannot be opened independently
// of each other.
func (c *Codec) Keys() string {
	if known, ok := c.keys.(interface{ IDs() []string }); ok {
		ids := known.IDs()
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
	if c.keys == nil {
		return ""
	}
	key, err := c.keys.Active(context.Background())
	if err != nil {
		return "none"
	}
	return key.ID
}

// Blobs returns the blob store of the configuration.
func (c *Codec) Blobs() BlobStore { return c.blobs }

// MaxSize returns the number of bytes above which payloads are refused.
func (c *Codec) MaxSize() int { return c.maxSize }

// active returns the key that seals payloads.
func (c *Codec) active(ctx context.Context) (Key, error) {
	k, err := c.keys.Active(ctx)
	if err == nil {
		err = k.check()
	}
	if err != nil {
		return Key{}, keyError("", err)
	}
	return k, nil
}

// key returns the key with an ID.
func (c *Codec) key(ctx context.Context, id string) (Key, error) {
	if c.keys == nil {
		return Key{}, &KeyError{Key: id, Err: fmt.Errorf("the codec has no keys: %w", ErrKeyNotFound)}
	}
	k, err := c.keys.Key(ctx, id)
	if err == nil && k.ID != id {
		err = fmt.Errorf("the key provider returned %s", k)
	}
	if err != nil {
		return Key{}, keyError(id, err)
	}
	return k, nil
}

func keyError(id string, err error) error {
	if k, ok := errors.AsType[*KeyError](err); ok {
		return k
	}
	return &KeyError{Key: id, Err: err}
}
