package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
)

// ExportRequest says which runs are exported: those that are named, or those of a filter. One that asks for nothing is
// refused: All means all.
type ExportRequest struct {
	Runs []string `json:"runs,omitempty"` // by their names
	// Filter selects runs, the oldest first. Its Cursor, Limit, Budget and Oldest must be zero. Those of a parent or a root are
	// selected whether it has Children or not.
	Filter Filter `json:"filter,omitzero"`
	All    bool   `json:"all,omitempty"`
	Tree   bool   `json:"tree,omitempty"` // also the runs that each has started, and those below; the store must be able to list runs

	Source string              `json:"-"` // what the file calls its source; empty: flowgen. A server calls it server.
	Told   func(n ExportCount) `json:"-"` // is called as it goes on; nil: nobody
}

// ExportCount says how much of each there is in a file.
type ExportCount = archive.Counts

// check refuses a request that makes no sense.
func (r *ExportRequest) check() error {
	f := &r.Filter
	switch {
	case f.Cursor != "" || f.Limit != 0 || f.Budget != 0 || f.Oldest:
		return &InputError{What: "the filter has a cursor, a limit, a budget or an order", Fix: "leave it out: an export takes all that match"}
	case len(r.Runs) == 0 && f.isZero() && !r.All:
		return &InputError{What: "export of which runs?", Fix: "name runs, or give a filter; all means all"}
	case len(r.Runs) > 0 && (!f.isZero() || r.All):
		return &InputError{What: "runs are named, and a filter is given", Fix: "name runs, or give a filter"}
	}
	_, err := f.filter()
	return err
}

// Export writes runs to w as lines of JSON with sums, in the format of package archive: records, logs and streams, as they
// are stored, and so with all that they carry. It changes nothing. Whoever reads a part that was cut off knows it, for the
// last line is missing: with an error that is what was written, or nothing. A run comes with those of its chain.
// What is wrong with the request is found before anything is written.
// It has the payloads and the names of all.
func (s *Service) Export(ctx context.Context, r ExportRequest, w io.Writer) (ExportCount, error) {
	if err := s.all(RoleAdmin, "export runs", ownRuns); err != nil {
		return ExportCount{}, err
	}
	if err := r.check(); err != nil {
		return ExportCount{}, err
	}
	var to *archive.Writer
	var x *archive.Exporter
	begin := func() (err error) {
		if to != nil {
			return nil
		}
		source := r.Source
		if source == "" {
			source = "flowgen"
		}
		to, err = archive.NewWriter(w, archive.Head{Source: source, Exported: s.client.Store().Clock().Now()})
		x = archive.NewExporter(s.client.Store(), to, r.Told)
		return err
	}
	for run, err := range s.exported(ctx, &r) {
		if err == nil {
			err = begin()
		}
		if err == nil {
			if err = x.Run(ctx, run); len(r.Runs) == 0 && errors.Is(err, store.ErrRunNotFound) {
				err = nil // it was purged after it was listed
			}
		}
		if err != nil {
			return ExportCount{}, err
		}
	}
	if err := begin(); err != nil {
		return ExportCount{}, err
	}
	if err := to.Close(); err != nil {
		return ExportCount{}, err
	}
	return to.Counts(), nil
}

// exported delivers the runs of a request, of which the exporter leaves out what it has written.
func (s *Service) exported(ctx context.Context, r *ExportRequest) iter.Seq2[event.RunID, error] {
	roots := s.selected(ctx, &r.Filter)
	if len(r.Runs) > 0 {
		roots = s.named(ctx, r.Runs)
	}
	if !r.Tree {
		return roots
	}
	return func(yield func(event.RunID, error) bool) {
		lister, ok := store.As[store.Lister](s.client.Store())
		if !ok {
			yield("", NewProblem(CodeUnsupported, "this kind of store cannot list runs", "leave out that those below are wanted, and name them"))
			return
		}
		for root, err := range roots {
			if err != nil {
				yield("", err)
				return
			}
			for run, err := range archive.Below(ctx, lister, root) {
				if !yield(run, err) || err != nil {
					return
				}
			}
		}
	}
}

// named delivers runs by their names, all of which are found before the first is delivered.
func (s *Service) named(ctx context.Context, refs []string) iter.Seq2[event.RunID, error] {
	return func(yield func(event.RunID, error) bool) {
		var found []event.RunID
		for _, ref := range refs {
			_, info, err := s.find(ctx, ref)
			if err != nil {
				yield("", err)
				return
			}
			found = append(found, info.ID)
		}
		for _, run := range found {
			if !yield(run, nil) {
				return
			}
		}
	}
}

// selected delivers the runs of a filter, the oldest first.
func (s *Service) selected(ctx context.Context, f *Filter) iter.Seq2[event.RunID, error] {
	return func(yield func(event.RunID, error) bool) {
		page := *f
		page.Oldest, page.Limit, page.Children = true, maxLimit, f.Children || f.Parent != "" || f.Root != ""
		for {
			got, err := s.runs(ctx, page)
			if err != nil {
				yield("", err)
				return
			}
			for i := range got.Runs {
				if !yield(event.RunID(got.Runs[i].ID), nil) {
					return
				}
			}
			if page.Cursor = got.Cursor; page.Cursor == "" {
				return
			}
		}
	}
}

// CopyExport copies what Export writes, and checks it: an error says that it was cut off or damaged on its way. told is
// called as it goes on; nil: nobody.
func CopyExport(w io.Writer, from io.Reader, told func(n ExportCount)) (ExportCount, error) {
	r, err := archive.NewReader(io.TeeReader(from, w))
	for err == nil {
		if told != nil {
			told(r.Counts())
		}
		if _, err = r.Next(); errors.Is(err, io.EOF) {
			return r.Counts(), nil
		}
	}
	if bad, ok := errors.AsType[*archive.LineError](err); ok {
		return ExportCount{}, NewProblem(CodeFailed, fmt.Sprintf("what was exported was cut off or damaged on its way: %v", bad), "export the runs again")
	}
	return ExportCount{}, fmt.Errorf("read the export: %w", err)
}
