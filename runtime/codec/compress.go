package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	window     = 1 << 20 // of the encoder; a larger one would cost memory per CPU
	mostWindow = 8 << 20 // of the decoder, as RFC 8878 recommends
	// cheapRatio and cheapSize bound the memory that is allocated because a payload claims a size:
	// up to cheapSize bytes plus cheapRatio bytes per compressed byte.
	cheapRatio = 64
	cheapSize  = 64 << 10
)

// encoder and decoder may be used concurrently. They keep one state per CPU.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		return must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithEncoderCRC(false)))
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxWindow(mostWindow), zstd.WithDecodeAllCapLimit(true)))
	})
)

// streams contains decoders for payloads that claim a high ratio. They decode without goroutines.
var streams = sync.Pool{New: func() any {
	return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(mostWindow)))
}}

// wholesale is the size above which a payload is compressed into the memory of its stored form. This
// memory has the largest size that may be necessary, because growing it would take longer than the
// compression of data that cannot be compressed.
const wholesale = 1 << 20

// smallSize is the size in bytes up to which a payload is compressed only if repeats reports true.
const smallSize = 4 << 10

// repeats reports whether at least an eighth of a small payload repeats earlier parts of it. The
// encoder spends most of its time for a small payload on tables of the frequencies of bytes, about
// 10 us, even if it finds few repetitions. This search visits fewer positions the longer it finds
// nothing, and gives up after a quarter of the payload without a repetition.
func repeats(plain []byte) bool {
	const hashBits = 9
	var seen [1 << hashBits]uint32 // by hash
	enough, patience := len(plain)/8, max(256, len(plain)/4)
	for i, last, missed := 0, 0, 0; i+4 <= len(plain) && i-last <= patience; {
		word := binary.LittleEndian.Uint32(plain[i:])
		before := &seen[word*2654435761>>(32-hashBits)]
		if *before != word {
			*before = word
			missed++
			i += 1 + missed>>4
			continue
		}
		if enough -= 4; enough <= 0 {
			return true
		}
		i += 4
		last, missed = i, 0
	}
	return false
}

// compress appends the compressed form of plain to b.
func compress(plain, b []byte) []byte { return encoder().EncodeAll(plain, b) }

// mostCompressed returns the maximum size of the compressed form of a payload.
func mostCompressed(size int) int { return encoder().MaxEncodedSize(size) }

// decompress returns the payload of the given size. It returns a reason if the body does not have
// exactly this size. The memory that it allocates is proportional to what the body contains, not to
// the size that it claims.
func decompress(body []byte, size int) (plain []byte, reason string) {
	var err error
	if size <= cheapSize+cheapRatio*len(body) {
		plain, err = decoder().DecodeAll(body, make([]byte, 0, size))
	} else {
		plain, err = decompressStream(body, size)
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(plain) != size:
		return nil, "it does not have the size that it states"
	case err != nil:
		return nil, "it cannot be decompressed: " + err.Error()
	}
	return plain, ""
}

// decompressStream decompresses into a buffer that grows with the content.
func decompressStream(body []byte, size int) ([]byte, error) {
	d := streams.Get().(*zstd.Decoder)
	defer streams.Put(d)
	if err := d.Reset(bytes.NewReader(body)); err != nil {
		return nil, err
	}
	defer d.Reset(nil) // do not keep the body
	var plain bytes.Buffer
	plain.Grow(min(size, cheapSize))
	if n, err := io.Copy(&plain, io.LimitReader(d, int64(size)+1)); err != nil {
		return nil, err
	} else if n > int64(size) {
		return nil, zstd.ErrDecoderSizeExceeded
	}
	return bytes.Clone(plain.Bytes()), nil
}

// buffers contains buffers for bodies and additional data while a payload is converted.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) <= 1<<20 {
		buffers.Put(b)
	}
}
