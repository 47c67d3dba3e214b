package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// MaxLine is the maximum length of a line in bytes. It exceeds the size of any frame or chunk that
// a store accepts.
const MaxLine = 1 << 28

// LineError reports an invalid line of a file. Line numbers count from 1.
type LineError struct {
	Line int
	Err  error
}

// Error returns the number of the line and the cause.
func (e *LineError) Error() string { return fmt.Sprintf("line %d of the export: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Permanent returns true, because the file does not change.
func (e *LineError) Permanent() bool { return true }

// Fix returns the action that the operator must take.
func (e *LineError) Fix() string { return "export the runs again, and copy the file as a whole" }

// Line is a decoded line.
type Line struct {
	Kind   Kind
	Number int   // number of the line, from 1
	Offset int64 // offset of the line in the file

	Record       store.Record // record of a run, in a line of kind run
	FailureGroup store.FailureGroup
	N            uint64 // number of a frame or a chunk
	Stream       Stream
	Blob         Blob
	Body         []byte // body of a frame, a chunk or a piece of a blob
}

// Reader reads a file line by line, and checks each line.
type Reader struct {
	r      *bufio.Reader
	sum    sum
	head   Head
	counts Counts
	number int
	offset int64
	ended  bool

	// State of the run and stream that are being read, which determines the next valid lines.
	frames, frame uint64 // number of frames of the run; number of the last frame read
	streams       int
	stream        Stream
	chunk         uint64 // number of the next chunk
	chain         event.RunID
	blob          Blob
	rest          int64     // number of bytes of the blob that have not been read
	piece         uint64    // number of the last piece
	hash          hash.Hash // of the pieces
}

// NewReader returns a Reader that has read the first line of r. The error is a *LineError or an
// error of r.
func NewReader(r io.Reader) (*Reader, error) {
	a := &Reader{r: bufio.NewReaderSize(r, 1<<16), stream: Stream{First: 1}, chunk: 1}
	l, _, err := a.read()
	if errors.Is(err, io.EOF) {
		return nil, &LineError{1, errors.New("the file is empty")}
	}
	if err != nil {
		return nil, err
	}
	if l.Kind != KindHead || l.Format != Format {
		return nil, &LineError{1, fmt.Errorf("it is of kind %q and format %d, this release reads exports of format %d", l.Kind, l.Format, Format)}
	}
	a.head = Head{Source: l.Source, Exported: l.Exported}
	return a, nil
}

// Head returns the first line.
func (r *Reader) Head() Head { return r.head }

// Counts returns the counts of all lines read.
func (r *Reader) Counts() Counts { return r.counts }

// Next returns the next line. It returns io.EOF after the last line. Other errors are a *LineError
// or an error of the underlying reader.
func (r *Reader) Next() (Line, error) {
	if r.ended {
		return Line{}, io.EOF
	}
	l, at, err := r.read()
	if errors.Is(err, io.EOF) {
		return Line{}, &LineError{r.number + 1, errors.New("the file ends before its last line: it was cut off")}
	}
	if err != nil {
		return Line{}, err
	}
	got := Line{Kind: l.Kind, Number: r.number, Offset: at, N: l.N}
	if err := r.take(l, &got); err != nil {
		return Line{}, &LineError{r.number, err}
	}
	r.counts.add(l)
	if l.Kind != KindEnd {
		return got, nil
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = &LineError{r.number + 1, errors.New("it follows the last line")}
		}
		return Line{}, err
	}
	r.ended = true
	return Line{}, io.EOF
}

// take checks that a line is valid at its position, and decodes it into got.
func (r *Reader) take(l *line, got *Line) (err error) {
	open := r.frame < r.frames || r.chunk <= r.stream.Last || r.rest > 0
	switch {
	case l.Kind == KindFrame && r.frame < r.frames:
		r.frame++
		return r.body(l, got, r.frame)
	case l.Kind == KindChunk && r.frame == r.frames && r.chunk <= r.stream.Last:
		r.chunk++
		return r.body(l, got, r.chunk-1)
	case l.Kind == KindStream && !open && r.streams > 0:
		r.streams--
		if l.Name == nil || l.First == 0 || l.Last == ^uint64(0) || l.First > l.Last+1 {
			return fmt.Errorf("the stream has chunks %d to %d", l.First, l.Last)
		}
		r.stream = Stream{Name: string(*l.Name), First: l.First, Last: l.Last, Closed: l.Closed}
		r.chunk, got.Stream = l.First, r.stream
		return store.CheckStreamName(r.stream.Name)
	case l.Kind == KindRun && !open && r.streams == 0 && l.Run != nil:
		if l.Frames == 0 || l.Streams < 0 || l.Streams > 0 && l.Run.Chain != "" {
			return fmt.Errorf("the run has %d frames and %d streams", l.Frames, l.Streams)
		}
		r.frames, r.frame, r.streams = l.Frames, 0, l.Streams
		got.Record, got.FailureGroup, err = l.Run.record()
		got.Record.N, r.chain = l.Frames, got.Record.Chain
		return err
	case l.Kind == KindBlob && !open && r.streams == 0 && r.chain != "":
		return r.beginBlob(l, got)
	case l.Kind == KindPiece && r.rest > 0:
		return r.readPiece(l, got)
	case l.Kind == KindEnd && !open && r.streams == 0:
		if l.Counts == nil || *l.Counts != r.counts {
			return fmt.Errorf("it contains the counts %+v, but the export has %+v", l.Counts, r.counts)
		}
		return nil
	}
	return fmt.Errorf("a line of kind %q is not allowed here: want frames %d to %d, chunks %d to %d, %d streams and %d bytes of a blob before",
		l.Kind, r.frame+1, r.frames, r.chunk, r.stream.Last, r.streams, r.rest)
}

// beginBlob reads a line of kind blob.
func (r *Reader) beginBlob(l *line, got *Line) error {
	prefix, sum, _ := strings.Cut(l.Blob, "/")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size || event.RunID(prefix) != r.chain || l.Size < 0 || l.Missing != (l.Size == 0) {
		return fmt.Errorf("the blob has the name %.200q and %d bytes", l.Blob, l.Size)
	}
	r.blob = Blob{Name: l.Blob, Size: l.Size, Missing: l.Missing}
	r.rest, r.piece, r.hash, got.Blob = l.Size, 0, sha256.New(), r.blob
	return nil
}

// readPiece reads a line of kind piece. With the last piece of a blob it checks the hash.
func (r *Reader) readPiece(l *line, got *Line) error {
	r.piece++
	if err := r.body(l, got, r.piece); err != nil {
		return err
	}
	if len(got.Body) == 0 || int64(len(got.Body)) > r.rest {
		return fmt.Errorf("the piece has %d bytes, want at most %d", len(got.Body), r.rest)
	}
	r.rest -= int64(len(got.Body))
	r.hash.Write(got.Body)
	got.Blob = r.blob
	if sum := hex.EncodeToString(r.hash.Sum(nil)); r.rest == 0 && !strings.HasSuffix(r.blob.Name, "/"+sum) {
		return fmt.Errorf("the blob %s has the hash %s", r.blob.Name, sum)
	}
	return nil
}

// body checks the number and the body of a frame, chunk or piece, and decodes it.
func (r *Reader) body(l *line, got *Line, n uint64) error {
	if l.N != n || l.Body == nil {
		return fmt.Errorf("the %s has number %d, want %d and a body", l.Kind, l.N, n)
	}
	got.Body = *l.Body
	return nil
}

// read reads a line, and checks its sum.
func (r *Reader) read() (*line, int64, error) {
	at := r.offset
	b, err := lineOf(r.r)
	r.offset += int64(len(b)) + 1
	if errors.Is(err, io.EOF) && len(b) == 0 {
		return nil, at, io.EOF
	}
	r.number++
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the file ends within it: it was cut off")
	case errors.Is(err, errLong):
	case err != nil:
		return nil, at, fmt.Errorf("read an export: %w", err)
	}
	var l *line
	if err == nil {
		if b, err = r.sum.open(b); err == nil {
			l, err = decode(b)
		}
	}
	if err != nil {
		return nil, at, &LineError{r.number, err}
	}
	return l, at, nil
}

func decode(b []byte) (*line, error) {
	l := &line{}
	return l, json.Unmarshal(b, l)
}

var errLong = fmt.Errorf("it is longer than %d bytes", MaxLine)

// lineOf reads a line and returns it without the newline.
func lineOf(r *bufio.Reader) (b []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		b = append(b, part...)
		switch {
		case len(b) > MaxLine:
			return b, errLong
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return b, err
		default:
			return b[:len(b)-1], nil
		}
	}
}
