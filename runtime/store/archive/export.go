package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pageFrames is the number of frames that one call of Load reads.
const pageFrames = 256

// Exporter writes runs of a store into a file. It keeps at most a page of a run, or one blob, in memory.
type Exporter struct {
	from    store.Store
	blobs   store.BlobStore // nil: there is none
	to      *Writer
	done    map[event.RunID]bool
	groups  map[string]store.FailureGroup
	tell    func(Counts)
	streams store.StreamLister
	missing func(blob string)

	// chain is the chain of the last run, and written contains the names of its blobs in the file.
	chain   event.RunID
	written map[string]bool
}

// NewExporter returns an Exporter that writes to a Writer. The caller must close the Writer. If from
// has a codec, the Exporter writes user data in their stored form, without the keys. It calls tell
// after each run and each page; tell may be nil.
func NewExporter(from store.Store, to *Writer, tell func(Counts)) *Exporter {
	if tell == nil {
		tell = func(Counts) {}
	}
	from, blobs := store.Stored(from)
	lister, _ := store.As[store.StreamLister](from)
	return &Exporter{from: from, blobs: blobs, to: to, missing: func(string) {}, done: map[event.RunID]bool{}, groups: map[string]store.FailureGroup{}, tell: tell, streams: lister}
}

// Missing sets a function that is called with the name of each blob that is missing or altered. Instead
// of the blob the file contains that it is missing.
func (e *Exporter) Missing(tell func(blob string)) { e.missing = tell }

// Run writes the chain of a run: the first run, with the streams, and all later runs that are kept.
// It skips runs that it has written before, so the caller may pass a run twice. An open run is
// written as of one moment. Run returns store.ErrRunNotFound if the run does not exist, and
// store.ErrNoBlobStore if it has data in blobs and the store has no blob store.
func (e *Exporter) Run(ctx context.Context, run event.RunID) error {
	if e.done[run] {
		return nil
	}
	rec, err := e.record(ctx, run)
	if err != nil {
		return err
	}
	if rec.Chain != run && !e.done[rec.Chain] {
		if err := e.follow(ctx, rec.Chain); err != nil && !errors.Is(err, store.ErrRunNotFound) {
			return err
		}
	}
	return e.follow(ctx, run)
}

// follow writes a run and the runs that it continued as.
func (e *Exporter) follow(ctx context.Context, run event.RunID) error {
	for first := true; run != "" && !e.done[run]; first = false {
		rec, err := e.record(ctx, run)
		if errors.Is(err, store.ErrRunNotFound) && !first {
			return nil // the run was purged in the meantime
		}
		if err != nil {
			return err
		}
		if err := e.write(ctx, &rec); err != nil {
			return fmt.Errorf("export run %s: %w", run, err)
		}
		e.done[run] = true
		e.tell(e.to.Counts())
		run = rec.Next
	}
	return nil
}

func (e *Exporter) record(ctx context.Context, run event.RunID) (store.Record, error) {
	got, err := e.load(ctx, store.Load{Run: run, Limit: -1})
	return got.Record, err
}

func (e *Exporter) load(ctx context.Context, l store.Load) (store.Loaded, error) {
	got, err := e.from.Load(ctx, []store.Load{l})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return store.Loaded{}, fmt.Errorf("export run %s: %w", l.Run, err)
	}
	return got[0], nil
}

// write writes a run up to the last commit in its record. It omits later commits.
func (e *Exporter) write(ctx context.Context, rec *store.Record) error {
	label, err := e.failureGroup(ctx, rec)
	if err != nil {
		return err
	}
	var streams []string
	if e.streams != nil && rec.Chain == rec.Run {
		if streams, err = e.streams.StreamNames(ctx, rec.Run); err != nil {
			return err
		}
	}
	if err := e.to.Run(rec, label, len(streams)); err != nil {
		return err
	}
	names := store.BlobNames{Chain: rec.Chain}
	for n := uint64(0); n < rec.N; {
		got, err := e.load(ctx, store.Load{Run: rec.Run, After: n, Limit: int(min(pageFrames, rec.N-n))})
		if err != nil {
			return err
		}
		if len(got.Frames) == 0 {
			return &store.DamagedError{Run: rec.Run, Frame: n + 1, Err: errors.New("it is missing")}
		}
		for _, frame := range got.Frames {
			n++
			if err := e.to.Frame(n, frame); err != nil {
				return err
			}
			_ = names.Frame(frame) // a frame that cannot be decoded is exported as it is, and an import refuses it
		}
		e.tell(e.to.Counts())
	}
	for _, name := range streams {
		if err := e.stream(ctx, rec.Run, name, &names); err != nil {
			return fmt.Errorf("stream %q: %w", name, err)
		}
	}
	return e.blobsOf(ctx, &names)
}

// blobsOf writes the blobs of a run that are not in the file yet.
func (e *Exporter) blobsOf(ctx context.Context, names *store.BlobNames) error {
	if e.chain != names.Chain {
		e.chain, e.written = names.Chain, map[string]bool{}
	}
	for _, name := range slices.Sorted(maps.Keys(names.Names)) {
		if e.written[name] {
			continue
		}
		if err := e.blob(ctx, name); err != nil {
			return fmt.Errorf("blob %s: %w", name, err)
		}
		e.written[name] = true
		e.tell(e.to.Counts())
	}
	return nil
}

func (e *Exporter) blob(ctx context.Context, name string) error {
	if e.blobs == nil {
		return store.ErrNoBlobStore
	}
	data, err := e.blobs.Get(ctx, name)
	if err != nil && !errors.Is(err, store.ErrBlobNotFound) {
		return err
	}
	if sum := sha256.Sum256(data); err != nil || len(data) == 0 || !strings.HasSuffix(name, "/"+hex.EncodeToString(sum[:])) {
		e.missing(name)
		return e.to.MissingBlob(name)
	}
	return e.to.Blob(name, data)
}

// stream writes a stream as of one moment. An open run may drop chunks while the stream is read.
func (e *Exporter) stream(ctx context.Context, run event.RunID, name string, names *store.BlobNames) error {
	page, err := e.from.ReadStream(ctx, store.ReadStream{Run: run, Stream: name})
	if err != nil {
		return err
	}
	s := Stream{Name: name, First: page.First, Last: page.Last, Closed: page.Closed}
	if len(page.Chunks) == 0 {
		s.First = s.Last + 1
	}
	if err := e.to.Stream(s); err != nil {
		return err
	}
	for next := s.First; next <= s.Last; {
		if len(page.Chunks) == 0 || page.Chunks[0].Index != next {
			return fmt.Errorf("chunk %d was dropped while the stream was read: export the run again, or after it has ended", next)
		}
		for _, c := range page.Chunks {
			if c.Index > s.Last {
				break
			}
			if err := e.to.Chunk(c.Index, c.Body); err != nil {
				return err
			}
			names.Data(c.Body)
			next++
		}
		e.tell(e.to.Counts())
		if next <= s.Last {
			if page, err = e.from.ReadStream(ctx, store.ReadStream{Run: run, Stream: name, From: next}); err != nil {
				return err
			}
		}
	}
	return nil
}

// failureGroup returns the failure group of a record with its description.
func (e *Exporter) failureGroup(ctx context.Context, rec *store.Record) (store.FailureGroup, error) {
	if rec.Group == "" {
		return store.FailureGroup{}, nil
	}
	if t, known := e.groups[rec.Group]; known {
		return t, nil
	}
	t := store.FailureGroup{Group: rec.Group, Workflow: rec.Route.Workflow}
	if l, ok := store.As[store.FailureGroupLister](e.from); ok {
		page, err := l.FailureGroups(ctx, store.FailureGroupQuery{Groups: []string{rec.Group}, Limit: 1})
		if err != nil {
			return t, err
		}
		if len(page.Groups) > 0 {
			t = page.Groups[0].FailureGroup
		}
	}
	e.groups[rec.Group] = t
	return t, nil
}

// Below yields a run and its descendants. from must be able to list them.
func Below(ctx context.Context, from store.Lister, run event.RunID) iter.Seq2[event.RunID, error] {
	return func(yield func(event.RunID, error) bool) {
		queue, seen := []event.RunID{run}, map[event.RunID]bool{}
		for len(queue) > 0 {
			next := queue[0]
			queue = queue[1:]
			if seen[next] { // a cycle, which only an import can create
				continue
			}
			seen[next] = true
			if !yield(next, nil) {
				return
			}
			q := store.Query{Parent: next, Oldest: true}
			for {
				page, err := from.List(ctx, q)
				if err != nil {
					yield("", err)
					return
				}
				for i := range page.Runs {
					queue = append(queue, page.Runs[i].Run)
				}
				if q.Cursor = page.Cursor; q.Cursor == "" {
					break
				}
			}
		}
	}
}
