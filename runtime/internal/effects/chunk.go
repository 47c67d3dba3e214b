package effects

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// UserStream returns the name under which a store keeps a user's stream. The prefix separates these
// streams from other data that is kept as streams.
func UserStream(name string) string { return userStreams + name }

// userStreams is the prefix of the names that UserStream returns.
const userStreams = "s:"

// NameOfStream is the inverse of UserStream. It reports false for other data that is kept as
// streams.
func NameOfStream(kept string) (string, bool) { return strings.CutPrefix(kept, userStreams) }

// Chunk is a value in its stored form, with its origin.
type Chunk struct {
	Value []byte
	// Run, Key and Attempt identify the step that has written the value. All are zero if the
	// workflow code has written it.
	Run     event.RunID
	Key     string
	Attempt int
}

// version is the first byte of each encoded chunk and batch.
const version = 1

// AppendChunk appends the stored form of a chunk to b: the version, the attempt, the run and the
// key of the step, each preceded by its length, and the value.
func AppendChunk(b []byte, c *Chunk) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(c.Attempt))
	if c.Attempt > 0 {
		b = appendSized(b, c.Run)
		b = appendSized(b, c.Key)
	}
	return append(b, c.Value...)
}

// DecodeChunk decodes the result of AppendChunk. The value shares memory with b. The error for a
// sealed chunk is an [*event.SealedError].
func DecodeChunk(b []byte) (Chunk, error) {
	if err := event.CheckOpen(b); err != nil {
		return Chunk{}, err
	}
	r, err := open(b)
	if err != nil {
		return Chunk{}, fmt.Errorf("decode chunk of %d bytes: %w", len(b), err)
	}
	c := Chunk{Attempt: int(r.number())}
	if c.Attempt > 0 {
		c.Run, c.Key = event.RunID(r.sized()), string(r.sized())
	}
	if r.bad || c.Attempt < 0 {
		return Chunk{}, fmt.Errorf("decode chunk of %d bytes: it is cut short: %w", len(b), event.ErrCorrupt)
	}
	c.Value = r.b
	return c, nil
}

// Batch contains the chunks that one call writes to one stream, in their stored form. It also
// contains how many chunks the stream keeps; 0 keeps all. A Batch is the payload of an event until
// the event is committed.
type Batch struct {
	Keep   int
	Bodies [][]byte
}

// Encode returns the encoded form of a batch.
func (p *Batch) Encode() []byte {
	size := 1 + binary.MaxVarintLen64
	for _, body := range p.Bodies {
		size += binary.MaxVarintLen32 + len(body)
	}
	b := append(make([]byte, 0, size), version)
	b = binary.AppendUvarint(b, uint64(p.Keep))
	for _, body := range p.Bodies {
		b = appendSized(b, body)
	}
	return b
}

// DecodeBatch decodes the result of Encode. The bodies share memory with b.
func DecodeBatch(b []byte) (Batch, error) {
	r, err := open(b)
	if err != nil {
		return Batch{}, fmt.Errorf("decode chunks of %d bytes: %w", len(b), err)
	}
	p := Batch{Keep: int(r.number())}
	for len(r.b) > 0 && !r.bad {
		p.Bodies = append(p.Bodies, r.sized())
	}
	if r.bad || p.Keep < 0 {
		return Batch{}, fmt.Errorf("decode chunks of %d bytes: they are cut short: %w", len(b), event.ErrCorrupt)
	}
	return p, nil
}

func appendSized[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// reader removes encoded parts from the front of b.
type reader struct {
	b   []byte
	bad bool
}

func open(b []byte) (*reader, error) {
	switch {
	case len(b) == 0 || b[0] == 0:
		return nil, fmt.Errorf("it does not begin as one: %w", event.ErrCorrupt)
	case b[0] > version:
		return nil, fmt.Errorf("it has version %d, this release reads up to %d: use a newer release of flowgen", b[0], version)
	}
	return &reader{b: b[1:]}, nil
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) sized() []byte {
	n := r.number()
	if r.bad || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
