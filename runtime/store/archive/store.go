package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

// Store provides read access to the runs of a file. An operation that would change the store fails
// with a *[store.ReadOnlyError]. So does a call that waits for an open run, because the file does
// not change. Store keeps the records of the runs and the offsets of their lines in memory. It
// reads everything else on demand.
type Store struct {
	name   string
	f      *os.File
	runs   map[event.RunID]*kept
	order  []*kept // sorted by creation, the oldest first
	blobs  map[string]*keptBlob
	closed chan struct{}
}

// kept contains the record of a run and the offsets of its lines.
type kept struct {
	rec          store.Record
	line         int // number of the line of the run
	failureGroup store.FailureGroup
	frames       []int64 // offsets of its frames
	streams      map[string]*keptStream
}

// keptBlob contains the offsets of the pieces of a blob.
type keptBlob struct {
	Blob
	pieces []int64
}

type keptStream struct {
	Stream
	chunks []int64
}

var (
	_ store.Store              = (*Store)(nil)
	_ store.Lister             = (*Store)(nil)
	_ store.FailureGroupLister = (*Store)(nil)
	_ store.StreamLister       = (*Store)(nil)
)

// scheme is the scheme of the URLs with which store.Open opens a file.
const scheme = "export"

func init() {
	store.Register(scheme, func(_ context.Context, url string) (store.Store, error) {
		return Open(strings.TrimPrefix(url, scheme+":"))
	})
}

// Open reads and checks the whole file, and returns it as a store. The error is a
// *[store.MissingError], a *[LineError], or an error of the file.
func Open(path string) (*Store, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &store.MissingError{What: path}
	}
	if err != nil {
		return nil, fmt.Errorf("open an export: %w", err)
	}
	s := &Store{name: path, f: f, runs: map[event.RunID]*kept{}, blobs: map[string]*keptBlob{}, closed: make(chan struct{})}
	if err := s.index(); err != nil {
		_ = f.Close() // the file was only read, so the error does not matter
		return nil, fmt.Errorf("open export %s: %w", path, err)
	}
	return s, nil
}

// index reads the file and stores the records and the offsets of the lines.
func (s *Store) index() error {
	a, err := NewReader(s.f)
	if err != nil {
		return err
	}
	var run *kept
	var stream *keptStream
	for {
		l, err := a.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch l.Kind {
		case KindRun:
			if s.runs[l.Record.Run] != nil {
				return &LineError{l.Number, fmt.Errorf("run %s comes for the second time", l.Record.Run)}
			}
			run = &kept{rec: l.Record, line: l.Number, failureGroup: l.FailureGroup, streams: map[string]*keptStream{}}
			s.runs[l.Record.Run], s.order = run, append(s.order, run)
		case KindFrame:
			run.frames = append(run.frames, l.Offset)
		case KindStream:
			stream = &keptStream{Stream: l.Stream}
			run.streams[l.Stream.Name] = stream
		case KindChunk:
			stream.chunks = append(stream.chunks, l.Offset)
		case KindBlob:
			if !l.Blob.Missing {
				s.blobs[l.Blob.Name] = &keptBlob{Blob: l.Blob}
			}
		case KindPiece:
			b := s.blobs[l.Blob.Name]
			b.pieces = append(b.pieces, l.Offset)
		}
	}
	slices.SortFunc(s.order, func(a, b *kept) int { return store.NewestFirst(&b.rec, &a.rec) })
	return s.straight()
}

// straight returns an error if a run is its own descendant, or continues as an earlier run of its
// chain. Readers of such runs would not terminate.
func (s *Store) straight() error {
	above := func(rec *store.Record) event.RunID { return rec.Parent }
	next := func(rec *store.Record) event.RunID { return rec.Next }
	for _, to := range []func(*store.Record) event.RunID{above, next} {
		ends := map[event.RunID]bool{} // runs from which no references lead to a cycle
		for _, from := range s.order {
			var loop event.Loop
			for r := from; r != nil && !ends[r.rec.Run]; r = s.runs[to(&r.rec)] {
				if loop.Closed(r.rec.Run) {
					return &LineError{from.line, &store.ImportError{Run: from.rec.Run, Why: store.ImportRound}}
				}
			}
			for r := from; r != nil && !ends[r.rec.Run]; r = s.runs[to(&r.rec)] {
				ends[r.rec.Run] = true
			}
		}
	}
	return nil
}

func (s *Store) enter(ctx context.Context) error {
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

// body returns the body of the line at an offset.
func (s *Store) body(at int64) ([]byte, error) {
	b, err := lineOf(bufio.NewReader(io.NewSectionReader(s.f, at, MaxLine)))
	if err != nil {
		return nil, fmt.Errorf("read export %s: %w", s.name, err)
	}
	l, err := decode(b)
	if err != nil || l.Body == nil {
		return nil, fmt.Errorf("read export %s: it was changed since it was opened", s.name)
	}
	return *l.Body, nil
}

// Clock returns the system clock.
func (s *Store) Clock() store.Clock { return store.SystemClock }

// Partitions returns 1, because a file is one partition.
func (s *Store) Partitions() int { return 1 }

// Load reads runs.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	answers := make([]store.Loaded, len(runs))
	for i := range runs {
		l := &runs[i]
		r := s.runs[l.Run]
		if r == nil {
			answers[i].Err = store.ErrRunNotFound
			continue
		}
		answers[i].Record = r.rec
		if l.Limit < 0 || l.After >= r.rec.N {
			continue
		}
		lines := r.frames[l.After:]
		if l.Limit > 0 {
			lines = lines[:min(l.Limit, len(lines))]
		}
		for _, at := range lines {
			b, err := s.body(at)
			if err != nil {
				return nil, err
			}
			answers[i].Frames = append(answers[i].Frames, b)
		}
	}
	return answers, nil
}

// Resolve returns the run of a workflow id that has not ended. If there is none, it returns the run
// that ended last.
func (s *Store) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	var found *kept
	for _, r := range s.order {
		if r.rec.WorkflowID != workflowID || workflowID == "" || r.rec.Next != "" {
			continue
		}
		if open := r.rec.EndedAt.IsZero(); found == nil || open || !found.rec.EndedAt.IsZero() && !r.rec.EndedAt.Before(found.rec.EndedAt) {
			found = r
		}
	}
	if found == nil {
		return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, store.ErrRunNotFound)
	}
	return found.rec.Run, nil
}

// List returns a page of runs. It examines the runs one by one.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.enter(ctx); err != nil {
		return store.Page{}, err
	}
	page, err := paging.New(&q)
	after, run, _ := q.After()
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	cursor := &store.Record{Run: run, CreatedAt: after}
	for i := range s.order {
		r := s.order[i]
		if !q.Oldest {
			r = s.order[len(s.order)-1-i]
		}
		if behind := store.NewestFirst(cursor, &r.rec) < 0; run != "" && (behind == q.Oldest || r.rec.Run == run) {
			continue
		}
		if !page.More() {
			return page.Done(), nil
		}
		if q.Matches(&r.rec) {
			page.Add(paging.Of(&r.rec), &r.rec)
		} else {
			page.Add(paging.Of(&r.rec), nil)
		}
	}
	if page.More() {
		page.End()
	}
	return page.Done(), nil
}

// Count returns the number of matching runs.
func (s *Store) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	if err := s.enter(ctx); err != nil {
		return store.Counts{}, err
	}
	counter := paging.Count(&q)
	for _, r := range s.order {
		if !counter.More() {
			break
		}
		counter.Add(q.Matches(&r.rec), r.rec.Status, r.rec.Route)
	}
	return counter.Counts, nil
}

// FailureGroups returns a page of the failure groups of the runs in the file. The file does not
// contain the time at which a run entered its group. FailureGroups uses the end of the run instead,
// or its creation if the run has not ended.
func (s *Store) FailureGroups(ctx context.Context, q store.FailureGroupQuery) (store.FailureGroupPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.FailureGroupPage{}, err
	}
	var found []store.FailureGroupInfo
	for _, r := range s.order {
		if r.failureGroup.Group == "" {
			continue
		}
		at := r.rec.EndedAt
		if at.IsZero() {
			at = r.rec.CreatedAt
		}
		found = append(found, store.FailureGroupInfo{FailureGroup: r.failureGroup, First: at, Last: at, Total: 1, Open: 1})
	}
	page, err := paging.FailureGroups(&q, found, false)
	if err != nil {
		return page, fmt.Errorf("list failure groups: %w", err)
	}
	return page, nil
}

// chain returns the first run of the chain of a run. The first run has the streams.
func (s *Store) chain(run event.RunID) (*kept, error) {
	r := s.runs[run]
	if r == nil {
		return nil, store.ErrRunNotFound
	}
	if first := s.runs[r.rec.Chain]; first != nil {
		return first, nil
	}
	return r, nil
}

// ended reports whether the chain of a run has ended.
func (s *Store) ended(r *kept) bool {
	for passed := 0; passed <= len(s.runs); passed++ {
		next := s.runs[r.rec.Next]
		if next == nil {
			break
		}
		r = next
	}
	return r.rec.QueueState == store.StateEnded
}

// StreamNames returns the names of the streams of a run's chain.
func (s *Store) StreamNames(ctx context.Context, run event.RunID) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	r, err := s.chain(run)
	if err != nil {
		return nil, fmt.Errorf("list streams of run %s: %w", run, err)
	}
	var names []string
	for name := range r.streams {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// ReadStream returns a part of a stream.
func (s *Store) ReadStream(ctx context.Context, q store.ReadStream) (store.StreamPage, error) {
	err := s.enter(ctx)
	if err == nil {
		err = store.CheckStreamName(q.Stream)
	}
	var page store.StreamPage
	var r *kept
	if err == nil {
		r, err = s.chain(q.Run)
	}
	if err == nil {
		page, err = s.page(r, &q)
	}
	if err != nil {
		return store.StreamPage{}, fmt.Errorf("read stream %q of run %s: %w", q.Stream, q.Run, err)
	}
	return page, nil
}

func (s *Store) page(r *kept, q *store.ReadStream) (store.StreamPage, error) {
	page := store.StreamPage{Ended: s.ended(r)}
	st := r.streams[q.Stream]
	if st == nil {
		return page, nil
	}
	page.Last, page.Closed = st.Last, st.Closed
	if len(st.chunks) == 0 {
		return page, nil
	}
	page.First = st.First
	from := max(q.From, st.First)
	if q.Tail > 0 {
		from = max(st.Last-min(st.Last, uint64(q.Tail))+1, st.First)
	}
	limit := q.Limit
	if limit == 0 {
		limit = store.DefaultStreamPage
	}
	for n := from; n <= st.Last && limit > 0; n, limit = n+1, limit-1 {
		b, err := s.body(st.chunks[n-st.First])
		if err != nil {
			return page, err
		}
		page.Chunks = append(page.Chunks, store.Chunk{Index: n, Body: b})
	}
	return page, nil
}

// Watch returns nil if the log has more than n commits or the run has ended. Otherwise it returns a
// *[store.ReadOnlyError].
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	r := s.runs[run]
	switch {
	case r == nil:
		return fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
	case r.rec.N > n || r.rec.QueueState == store.StateEnded:
		return nil
	}
	return s.refuse("wait for run " + string(run))
}

// AwaitStream returns nil if there is a chunk after the given one or the stream has ended.
// Otherwise it returns a *[store.ReadOnlyError].
func (s *Store) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	page, err := s.ReadStream(ctx, store.ReadStream{Run: run, Stream: stream, Limit: -1})
	if err != nil || page.Last != after || page.Closed || page.Ended {
		return err
	}
	return s.refuse("wait for a stream of run " + string(run))
}

// Wait returns a *[store.ReadOnlyError], because the file has no work for a worker.
func (s *Store) Wait(context.Context, store.Wait) (store.Woken, error) {
	return store.Woken{}, s.refuse("work")
}

// Close closes the file.
func (s *Store) Close() error {
	select {
	case <-s.closed:
		return nil
	default:
		close(s.closed)
		return s.f.Close()
	}
}

// refuse returns the error of an operation that would change the store.
func (s *Store) refuse(what string) error {
	return &store.ReadOnlyError{What: "the export " + s.name, Op: what}
}
