package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Check reads a file to its end. It returns the head and the counts of the lines.
func Check(r io.Reader) (Head, Counts, error) {
	a, err := NewReader(r)
	if err != nil {
		return Head{}, Counts{}, err
	}
	for {
		if _, err := a.Next(); errors.Is(err, io.EOF) {
			return a.Head(), a.Counts(), nil
		} else if err != nil {
			return a.Head(), a.Counts(), err
		}
	}
}

// Imported is the result for one run.
type Imported struct {
	Run   event.RunID
	Fresh bool  // the run was added by this import
	Err   error // reason of the refusal; nil if the store contains the run

	Status event.Status // status of the run in the file
	Parent event.RunID  // run that started this run; empty if there is none
	// Missing contains the names of blobs of the run that neither the file nor the blob store has.
	Missing []string
}

// Import adds the runs of a file to a store, each run in one action. It first checks the whole
// file, and imports nothing from a truncated or changed file. It calls tell for each run. If a run
// is refused, Import continues with the others. If Import returns an error, the runs passed to tell
// have been processed. The caller can then import the same file again, which skips those runs.
//
// Import stores the blobs of a run before the run. If the file contains blobs and the store has no blob
// store, the error matches store.ErrNoBlobStore.
//
// For each run Import reads the last commit from the store. If the store has the run, Import
// compares the stored log with the log in the file.
func Import(ctx context.Context, r io.ReadSeeker, to store.Store, by store.SessionID, tell func(Imported)) error {
	to, blobs := store.Stored(to)
	importer, ok := store.As[store.Importer](to)
	if !ok {
		return errors.New("import runs: this kind of store cannot import runs: use one in SQLite or Redis")
	}
	_, counts, err := Check(r)
	if err != nil {
		return err
	}
	if counts.Blobs > 0 && blobs == nil {
		return fmt.Errorf("import runs: the file contains %d blobs: %w", counts.Blobs, store.ErrNoBlobStore)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read an export again: %w", err)
	}
	a, err := NewReader(r)
	if err != nil {
		return err
	}
	var m *store.Import
	b := blobImporter{to: blobs}
	add := func() error {
		if m == nil {
			return nil
		}
		m.By = by
		got := importOne(ctx, importer, to, m)
		got.Status, got.Parent, got.Missing = m.Record.Status, m.Record.Parent, b.missing
		b.missing = nil
		if store.Unknown(got.Err) || errors.Is(got.Err, store.ErrClosed) {
			return got.Err
		}
		tell(got)
		return nil
	}
	for {
		l, err := a.Next()
		if errors.Is(err, io.EOF) {
			return add()
		}
		if err != nil {
			return err
		}
		if l.Kind == KindRun {
			if err := add(); err != nil {
				return err
			}
			m = &store.Import{Record: l.Record, FailureGroup: l.FailureGroup}
			continue
		}
		collect(m, &l)
		if err := b.read(ctx, &l); err != nil {
			return fmt.Errorf("import run %s: %w", m.Record.Run, err)
		}
	}
}

// blobImporter stores the blobs of a file.
type blobImporter struct {
	to      store.BlobStore
	data    []byte   // pieces of a blob
	missing []string // names of the missing blobs of the present run
}

// read reads a line. With the last piece of a blob it stores the blob.
func (b *blobImporter) read(ctx context.Context, l *Line) error {
	switch l.Kind {
	case KindBlob:
		b.data = b.data[:0]
		if !l.Blob.Missing {
			return nil
		}
		found, err := b.to.List(ctx, l.Blob.Name, "", 1)
		if err == nil && len(found) == 0 {
			b.missing = append(b.missing, l.Blob.Name)
		}
		return err
	case KindPiece:
		if b.data = append(b.data, l.Body...); int64(len(b.data)) == l.Blob.Size {
			return b.to.Put(ctx, l.Blob.Name, b.data)
		}
	}
	return nil
}

// collect adds the contents of a line to a run.
func collect(m *store.Import, l *Line) {
	switch l.Kind {
	case KindFrame:
		m.Frames = append(m.Frames, l.Body)
	case KindStream:
		m.Streams = append(m.Streams, store.ImportedStream{Name: l.Stream.Name, Last: l.Stream.Last, Closed: l.Stream.Closed})
	case KindChunk:
		s := &m.Streams[len(m.Streams)-1]
		s.Chunks = append(s.Chunks, l.Body)
	}
}

func importOne(ctx context.Context, importer store.Importer, to store.Store, m *store.Import) Imported {
	run := m.Record.Run
	if m.Record.QueueState != store.StateEnded {
		return Imported{Run: run, Err: &store.ImportError{Run: run, Why: store.ImportOpen}}
	}
	for _, walk := range []struct {
		from event.RunID
		to   func(*store.Record) event.RunID
	}{
		{m.Record.Parent, func(r *store.Record) event.RunID { return r.Parent }},
		{m.Record.Next, func(r *store.Record) event.RunID { return r.Next }},
		{m.Record.Rerun, func(r *store.Record) event.RunID { return r.Rerun }},
	} {
		if round, err := leadsTo(ctx, to, walk.from, run, walk.to); err != nil {
			return Imported{Run: run, Err: err}
		} else if round {
			return Imported{Run: run, Err: &store.ImportError{Run: run, Why: store.ImportRound}}
		}
	}
	fresh, err := importer.Import(ctx, *m)
	if err != nil || fresh {
		return Imported{Run: run, Fresh: fresh, Err: err}
	}
	return Imported{Run: run, Err: same(ctx, to, m)}
}

// leadsTo reports whether the references between runs in a store lead from one run to another. The
// function to returns the reference of a run. Import calls leadsTo before it adds a run, so it
// detects a cycle when it imports the last run of the cycle.
func leadsTo(ctx context.Context, in store.Store, from, run event.RunID, to func(*store.Record) event.RunID) (bool, error) {
	var loop event.Loop
	for at := from; at != "" && !loop.Closed(at); {
		if at == run {
			return true, nil
		}
		got, err := in.Load(ctx, []store.Load{{Run: at, Limit: -1}})
		switch {
		case err != nil:
			return false, fmt.Errorf("read run %s: %w", at, err)
		case errors.Is(got[0].Err, store.ErrRunNotFound):
			return false, nil
		case got[0].Err != nil:
			return false, fmt.Errorf("read run %s: %w", at, got[0].Err)
		}
		at = to(&got[0].Record)
	}
	return false, nil
}

// same returns an error unless the stored log of a run equals its log in the file. The log of an
// ended run does not change.
func same(ctx context.Context, in store.Store, m *store.Import) error {
	for n := 0; n < len(m.Frames); {
		got, err := in.Load(ctx, []store.Load{{Run: m.Record.Run, After: uint64(n), Limit: pageFrames}})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			return fmt.Errorf("compare run %s: %w", m.Record.Run, err)
		}
		for _, frame := range got[0].Frames {
			if n >= len(m.Frames) || !bytes.Equal(frame, m.Frames[n]) {
				return &store.ImportError{Run: m.Record.Run, Why: store.ImportOther}
			}
			n++
		}
		if len(got[0].Frames) == 0 {
			return &store.ImportError{Run: m.Record.Run, Why: store.ImportOther}
		}
	}
	return nil
}
