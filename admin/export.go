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

// ExportRequest selects the runs to export, either by name or by a filter. To select all runs, set
// All. A request that selects nothing is refused.
type ExportRequest struct {
	Runs []string `json:"runs,omitempty"` // names of runs; see [Service]
	// Filter selects runs, the oldest first. Its Cursor, Limit, Budget and Oldest must be zero. A
	// filter by parent or root selects children even if Children is false.
	Filter Filter `json:"filter,omitzero"`
	All    bool   `json:"all,omitempty"`
	Tree   bool   `json:"tree,omitempty"` // also exports all descendants of each run; requires a store that can list runs

	Source string              `json:"-"` // name of the source in the file; empty means flowgen, and a server sets it to server
	Told   func(n ExportCount) `json:"-"` // called with the counts as the export progresses; may be nil
	// Missing is called with the name of each payload that is kept outside of the store and that the
	// blob store does not have, or has altered. The file contains that it is missing. It may be nil.
	Missing func(blob string) `json:"-"`
}

// ExportCount contains the numbers of records in a file.
type ExportCount = archive.Counts

// check validates a request.
func (r *ExportRequest) check() error {
	f := &r.Filter
	switch {
	case f.Cursor != "" || f.Limit != 0 || f.Budget != 0 || f.Oldest:
		return &InputError{What: "the filter has a cursor, a limit, a budget or an order", Fix: "remove it: an export contains all runs that match"}
	case len(r.Runs) == 0 && f.isZero() && !r.All:
		return &InputError{What: "export of which runs?", Fix: "name runs, give a filter, or use all"}
	case len(r.Runs) > 0 && (!f.isZero() || r.All):
		return &InputError{What: "both runs and a filter are given", Fix: "name runs, or give a filter"}
	}
	_, err := f.filter()
	return err
}

// Export writes runs to w as lines of JSON with checksums, in the format of package archive. The
// output contains records, logs and streams as they are stored, including all payloads, also those that
// are kept outside of the store, and the names of all owners. Export changes nothing. If it returns an error, the file is truncated or
// empty. A truncated file lacks the last line, so that readers can detect it. A run is exported
// with the other runs of its chain. Errors in the request are returned before anything is written.
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
		if r.Missing != nil {
			x.Missing(r.Missing)
		}
		return err
	}
	for run, err := range s.exported(ctx, &r) {
		if err == nil {
			err = begin()
		}
		if err == nil {
			if err = x.Run(ctx, run); len(r.Runs) == 0 && errors.Is(err, store.ErrRunNotFound) {
				err = nil // the run was purged after it was listed
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

// exported returns an iterator over the runs that the request selects. It may return a run twice;
// the exporter skips runs that it has already written.
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
			yield("", NewProblem(CodeUnsupported, "this kind of store cannot list runs", "do not request the runs below, and name them"))
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

// named returns an iterator over runs that are given by name. It resolves all names before it
// returns the first run.
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

// selected returns an iterator over the runs that a filter selects, the oldest first.
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

// CopyExport copies the output of Export from a reader to w and verifies it. It returns an error if
// the data are truncated or damaged. It calls the functions of the request as the copy progresses.
func CopyExport(w io.Writer, from io.Reader, asked ExportRequest) (ExportCount, error) {
	r, err := archive.NewReader(io.TeeReader(from, w))
	for err == nil {
		if asked.Told != nil {
			asked.Told(r.Counts())
		}
		var l archive.Line
		if l, err = r.Next(); errors.Is(err, io.EOF) {
			return r.Counts(), nil
		}
		if l.Blob.Missing && asked.Missing != nil {
			asked.Missing(l.Blob.Name)
		}
	}
	if bad, ok := errors.AsType[*archive.LineError](err); ok {
		return ExportCount{}, NewProblem(CodeFailed, fmt.Sprintf("the export was cut off or damaged in transit: %v", bad), "export the runs again")
	}
	return ExportCount{}, fmt.Errorf("read the export: %w", err)
}
