package effects

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// UserStream returns the name under which a store keeps a user's stream. Other data that is kept as
// streams has other prefixes.
func UserStream(name string) string { return userStreams + name }

// userStreams is the prefix of the names that UserStream returns.
const userStreams = "s:"

// NameOfStream returns the user's name of a stream, given the name under which a store keeps it. It
// reports false for other data.
func NameOfStream(kept string) (string, bool) { return strings.CutPrefix(kept, userStreams) }

// Chunk is a value in its stored form, with its origin.
type Chunk struct {
	Value []byte
	// Run, Key and Attempt identify the step that has written it; all zero for the code of a run.
	Run     event.RunID
	Key     string
	Attempt int
}

// version is the first byte of each chunk and of each batch.
const version = 1

// AppendChunk appends the stored form of a chunk: the version, the attempt, the run and
// the key of a step, each with its length before it, and the value.
func AppendChunk(b []byte, c *Chunk) []byte {
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(c.Attempt))
	if c.Attempt > 0 {
		b = appendSized(b, c.Run)
		b = appendSized(b, c.Key)
	}
	return append(b, c.Value...)
}

// DecodeChunk decodes the result of AppendChunk. The value shares memory with b.
func DecodeChunk(b []byte) (Chunk, error) {
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

// Batch contains what one call writes to one stream: the chunks, in their stored form, and how many
// chunks the stream keeps, 0 for all. It is the payload of an event until that event is committed.
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

// reader consumes b from the front.
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
