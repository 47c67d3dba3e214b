package codec

import (
	"encoding/binary"
	"encoding/hex"
	"math"
)

// A sealed payload has the following form. Numbers are minimal uvarints.
//
//	0xF8         cannot begin JSON or UTF-8
//	flags        one byte
//	plain size   number
//	key ID       length as a number, and bytes; only if encrypted
//	salt         16 bytes; if the payload is not encrypted, a checksum
//	body         or, if offloaded, SHA-256 of the body (32 bytes) and its size (number)
//
// The body is the payload, compressed with zstd if that makes it smaller, and encrypted with
// AES-256-GCM, whose tag is its end. See [sealing] for keys, salt and additional data.
const marker = 0xF8

const (
	encrypted byte = 1 << iota
	compressed
	offloaded

	known = encrypted | compressed | offloaded
)

const (
	saltSize = 16
	tagSize  = 16
	hashSize = 32

	maxNumber = binary.MaxVarintLen64
	maxHeader = 2 + maxNumber + 1 + 64 + saltSize
)

// IsSealed reports whether stored is the stored form of a payload that was encrypted, compressed or
// offloaded. It examines only the first byte.
func IsSealed(stored []byte) bool { return len(stored) > 0 && stored[0] == marker }

// Info describes a stored form.
type Info struct {
	Key        string // ID of the key; empty if the payload is not encrypted
	PlainSize  int64  // bytes of the payload as the sealed form states it, which is proven only by opening it
	StoredSize int64  // bytes of the stored form, without the blob
	Compressed bool
	Blob       string // name of the blob without its prefix; empty if the payload is not offloaded
	BlobSize   int64
}

// Inspect describes a stored form. It needs no key. Errors are *[DamagedError] and *[VersionError].
// It does not prove that the payload can be opened. A stored form that is not sealed has its own
// size as plain size.
func Inspect(stored []byte) (Info, error) {
	if !IsSealed(stored) {
		return Info{PlainSize: int64(len(stored)), StoredSize: int64(len(stored))}, nil
	}
	s, err := parse(Place{}, stored)
	if err != nil {
		return Info{}, err
	}
	info := Info{Key: s.key, PlainSize: int64(s.plainSize), StoredSize: int64(len(stored)), Compressed: s.has(compressed)}
	if s.has(offloaded) {
		info.Blob, info.BlobSize = hex.EncodeToString(s.hash), int64(s.blobSize)
	}
	return info, nil
}

// sealed is a parsed stored form. Its slices alias the input.
type sealed struct {
	flags     byte
	key       string
	plainSize uint64
	header    []byte // up to the salt, including it
	salt      []byte
	body      []byte // empty if offloaded
	hash      []byte // of the blob
	blobSize  uint64
}

func (s *sealed) has(flag byte) bool { return s.flags&flag != 0 }

// prefix returns the header without the salt.
func (s *sealed) prefix() []byte { return s.header[:len(s.header)-saltSize] }

// parse parses a sealed form and checks all that can be checked without a key.
func parse(at Place, stored []byte) (s sealed, err error) {
	r := reader{left: stored[1:]}
	s.flags = r.byte("flags")
	if unknown := s.flags &^ known; r.problem == "" && unknown != 0 {
		return sealed{}, &VersionError{Place: at, Flags: unknown}
	}
	s.plainSize = r.number("size")
	if s.has(encrypted) {
		s.key = string(r.bytes(r.number("size of the key ID"), "key ID"))
		if r.problem == "" && !validID(s.key) {
			r.problem = "its key ID is invalid"
		}
	}
	s.salt = r.bytes(saltSize, "salt")
	s.header = stored[:len(stored)-len(r.left)]
	bodySize := uint64(len(r.left))
	if s.has(offloaded) {
		s.hash = r.bytes(hashSize, "hash of the blob")
		s.blobSize = r.number("size of the blob")
		bodySize = s.blobSize
		if r.problem == "" && len(r.left) > 0 {
			r.problem = "bytes follow its end"
		}
	} else {
		s.body = r.left
	}
	if r.problem == "" {
		r.problem = s.wrongSize(bodySize)
	}
	if r.problem != "" {
		return sealed{}, &DamagedError{Place: at, Key: s.validKey(), Reason: r.problem}
	}
	return s, nil
}

func (s *sealed) validKey() string {
	if validID(s.key) {
		return s.key
	}
	return ""
}

// wrongSize returns the contradiction between the size of the body and the size of the payload, or
// "" if there is none.
func (s *sealed) wrongSize(body uint64) string {
	if s.has(encrypted) {
		if body < tagSize {
			return "it is truncated"
		}
		body -= tagSize
	}
	switch {
	case s.plainSize == 0 || s.plainSize > math.MaxInt64/2:
		return "its size is invalid"
	case !s.has(compressed) && body < s.plainSize:
		return "it is truncated"
	case !s.has(compressed) && body > s.plainSize:
		return "bytes follow its end"
	case s.has(compressed) && body == 0:
		return "it is truncated"
	case s.has(compressed) && body >= s.plainSize:
		return "its size is wrong"
	}
	return ""
}

// appendHeader appends the header of a sealed form with an empty salt.
func appendHeader(b []byte, flags byte, plainSize int, key string) []byte {
	b = append(b, marker, flags)
	b = binary.AppendUvarint(b, uint64(plainSize))
	if flags&encrypted != 0 {
		b = appendText(b, key)
	}
	var salt [saltSize]byte
	return append(b, salt[:]...)
}

// appendReference appends the hash and the size of the blob to a header.
func appendReference(header []byte, hash [hashSize]byte, blobSize int) []byte {
	return binary.AppendUvarint(append(header, hash[:]...), uint64(blobSize))
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// appendPlace appends the authenticated part of a place.
func appendPlace(b []byte, at Place) []byte { return appendText(appendText(b, at.Owner), at.Field) }

// reader reads a header. After the first problem it returns zero values.
type reader struct {
	left    []byte
	problem string
}

func (r *reader) bytes(n uint64, what string) []byte {
	if r.problem != "" {
		return nil
	}
	if n > uint64(len(r.left)) {
		r.problem = "it is truncated in the " + what
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) byte(what string) byte {
	if b := r.bytes(1, what); b != nil {
		return b[0]
	}
	return 0
}

// number reads a uvarint. It refuses one that is longer than necessary, so that a payload has only
// one form.
func (r *reader) number(what string) uint64 {
	if r.problem != "" {
		return 0
	}
	v, n := binary.Uvarint(r.left)
	switch {
	case n == 0:
		r.problem = "it is truncated in the " + what
		return 0
	case n < 0 || n > 1 && r.left[n-1] == 0:
		r.problem = "its " + what + " is invalid"
		return 0
	}
	r.left = r.left[n:]
	return v
}
