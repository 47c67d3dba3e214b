package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// Writer writes a file line by line. The caller must write the lines in the order of the format.
// After an error the Writer writes nothing more.
type Writer struct {
	w      *bufio.Writer
	sum    sum
	counts Counts
	err    error
}

// NewWriter writes the first line of a file. Close writes the last line; readers refuse a file
// without it.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	a := &Writer{w: bufio.NewWriterSize(w, 1<<16)}
	err := a.write(&line{Kind: KindHead, Format: Format, Source: h.Source, Exported: h.Exported.UTC()})
	return a, err
}

func (w *Writer) write(l *line) error {
	if w.err != nil {
		return w.err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if w.err = enc.Encode(l); w.err == nil {
		_, w.err = w.w.Write(w.sum.seal(bytes.TrimRight(b.Bytes(), "\n")))
	}
	if w.err != nil {
		w.err = fmt.Errorf("write an export: %w", w.err)
		return w.err
	}
	w.counts.add(l)
	return nil
}

// Run begins a run. The caller must then write as many frames as the record states, and the given
// number of streams.
func (w *Writer) Run(r *store.Record, t store.FailureGroup, streams int) error {
	return w.write(&line{Kind: KindRun, Run: recordOf(r, t), Frames: r.N, Streams: streams})
}

// Frame writes frame number n of the run.
func (w *Writer) Frame(n uint64, body []byte) error {
	return w.write(&line{Kind: KindFrame, N: n, Body: &body})
}

// Stream begins a stream. Its chunks must follow.
func (w *Writer) Stream(s Stream) error {
	name := text(s.Name)
	return w.write(&line{Kind: KindStream, Name: &name, First: s.First, Last: s.Last, Closed: s.Closed})
}

// Chunk writes chunk number n of the stream.
func (w *Writer) Chunk(n uint64, body []byte) error {
	return w.write(&line{Kind: KindChunk, N: n, Body: &body})
}

// Blob writes a blob of the run. The blobs of a run follow its streams.
func (w *Writer) Blob(name string, data []byte) error {
	if err := w.write(&line{Kind: KindBlob, Blob: name, Size: int64(len(data))}); err != nil {
		return err
	}
	n := uint64(0)
	for piece := range slices.Chunk(data, pieceSize) {
		n++
		if err := w.write(&line{Kind: KindPiece, N: n, Body: &piece}); err != nil {
			return err
		}
	}
	return nil
}

// MissingBlob writes that the source does not have a blob of the run.
func (w *Writer) MissingBlob(name string) error {
	return w.write(&line{Kind: KindBlob, Blob: name, Missing: true})
}

// Counts returns the counts of all lines written.
func (w *Writer) Counts() Counts { return w.counts }

// Close writes the last line. It does not close the underlying writer.
func (w *Writer) Close() error {
	counts := w.counts
	if err := w.write(&line{Kind: KindEnd, Counts: &counts}); err != nil {
		return err
	}
	if w.err = w.w.Flush(); w.err != nil {
		w.err = fmt.Errorf("write an export: %w", w.err)
	}
	return w.err
}
