package sealed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// Grace is the minimum age of a blob that is removed. A blob is stored before the commit that
	// refers to it, and each repetition of the commit stores it again, which renews its time. So the
	// blob of a commit is at most as old as one call of the store takes. Three cases are older, by at
	// most a quarter of Grace each. A process may pause within the call: see lateAfter. A record in
	// an outbox is delivered without storing its blobs again: see overdue. The clocks of the blob
	// store and of the workers may differ; a difference of six hours is harmless.
	Grace = 24 * time.Hour
	// lateAfter is the duration of a call of the store after which the blobs of its requests are
	// stored again, because a sweep may have removed them before the store applied the requests.
	lateAfter = Grace / 4
	// confirmAfter is how long a blob must remain without a reference. A failover of the store may
	// lose the commit that refers to a blob and deliver a record that creates it again. Both end
	// within two Horizons.
	confirmAfter = 2 * store.Horizon

	sweepPage   = 1000
	sweepPages  = 10
	sweepChains = 100       // chains that a pass reads
	sweepBytes  = 256 << 20 // size of their logs
	laterPages  = 20        // pages of runs among which a pass searches the next run of a chain
	recheckTime = 10 * time.Second
)

// Intervals between the passes of a worker. The first pass follows its start soon, so that workers
// which live for ten minutes remove blobs.
const (
	firstPass   = time.Minute
	confirmPass = confirmAfter * 5 / 4
	laterPass   = time.Hour
)

// Sweeper removes blobs to which no run refers: those of purged runs, of commits that were refused or
// never sent, and of consumed items, whose data the log has at another place. Several sweepers may work on the same blobs.
type Sweeper struct {
	raw   store.Store // without a codec
	blobs store.BlobStore
	clock store.Clock

	begun    string               // name of the blob after which the last pass began
	after    string               // name of the blob after which the next pass begins
	passes   int                  // number of passes; see Wait
	confirms bool                 // whether the next pass examines the blobs of the last one again, to confirm suspects
	found    bool                 // whether the pass has found a new suspect
	suspects map[string]time.Time // when a pass first found no reference to the blob
	timely   time.Time            // since when no pass has found an overdue record; zero if the last pass found one
}

// NewSweeper returns a sweeper of the blobs of a store.
func NewSweeper(s store.Store, blobs store.BlobStore, clock store.Clock) *Sweeper {
	return &Sweeper{raw: Raw(s), blobs: blobs, clock: clock, suspects: map[string]time.Time{}}
}

// Wait returns the approximate time until the next pass.
func (s *Sweeper) Wait() time.Duration {
	switch {
	case s.passes == 0:
		return firstPass
	case s.confirms:
		return confirmPass
	}
	return laterPass
}

// Pass examines a bounded part of the blobs. The next pass continues after it, or examines the same
// part again if there are new suspects. A pass removes a blob that is older than Grace if an earlier
// pass has found no reference to it either.
func (s *Sweeper) Pass(ctx context.Context) error {
	s.passes++
	if s.confirms {
		s.after = s.begun
	}
	s.begun = s.after
	confirmed := s.confirms
	s.found = false
	defer func() { s.confirms = !confirmed && s.found }()
	if late, err := s.overdue(ctx); err != nil || late {
		s.timely = time.Time{}
		return err
	}
	if s.timely.IsZero() {
		s.timely = s.clock.Now()
	}
	budget := budget{chains: sweepChains, bytes: sweepBytes}
	for range sweepPages {
		page, err := s.blobs.List(ctx, "", s.after, sweepPage)
		if err != nil {
			return fmt.Errorf("list blobs: %w", err)
		}
		if len(page) == 0 {
			s.after = ""
			return nil
		}
		for len(page) > 0 {
			if budget.chains <= 0 || budget.bytes <= 0 {
				return nil
			}
			chain, _, _ := strings.Cut(page[0].Name, "/")
			n := 1
			for n < len(page) && strings.HasPrefix(page[n].Name, chain+"/") {
				n++
			}
			if err := s.sweep(ctx, event.RunID(chain), page[:n], &budget); err != nil {
				return fmt.Errorf("remove blobs of chain %s: %w", chain, err)
			}
			s.after, page = page[n-1].Name, page[n:]
		}
	}
	return nil
}

// overdue reports whether a record in an outbox has waited so long for its delivery that a blob to
// which only the record refers may be older than Grace. Then the pass removes nothing. A record is
// delivered when it is due, and sent once more a Horizon later.
func (s *Sweeper) overdue(ctx context.Context) (bool, error) {
	now := s.clock.Now()
	for p := range s.raw.Partitions() {
		records, next, err := s.raw.Outbox(ctx, p, sweepPage)
		if err != nil {
			return false, fmt.Errorf("read the outbox of partition %d: %w", p, err)
		}
		for i := range records {
			if now.Sub(records[i].Since) > Grace/4 {
				return true, nil
			}
		}
		if !next.IsZero() && !next.After(now) && len(records) >= sweepPage {
			return true, nil // other records are due as well
		}
	}
	return false, nil
}

// budget bounds the remaining reads of a pass.
type budget struct{ chains, bytes int }

// sweep examines blobs of one chain.
func (s *Sweeper) sweep(ctx context.Context, chain event.RunID, blobs []store.Blob, b *budget) error {
	now := s.clock.Now()
	var old []string
	for i := range blobs {
		if now.Sub(blobs[i].Time) > Grace {
			old = append(old, blobs[i].Name)
		} else {
			delete(s.suspects, blobs[i].Name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	b.chains--
	refs, known, err := s.references(ctx, chain, b)
	if err != nil || !known {
		return err
	}
	for _, name := range old {
		first, suspect := s.suspects[name]
		switch {
		case refs[name]:
			delete(s.suspects, name)
		case !suspect && len(s.suspects) < sweepPages*sweepPage:
			s.suspects[name], s.found = now, true
		case suspect && now.Sub(first) >= confirmAfter && now.Sub(s.timely) >= confirmAfter:
			if err := s.remove(ctx, name); err != nil {
				return err
			}
			delete(s.suspects, name)
		}
	}
	return nil
}

// remove removes a blob, unless it was stored again after it was listed. A commit that stores the
// blob between the second list and the removal would refer to a missing blob. This requires that a
// commit with the same content at the same place was given up more than Grace ago, and is repeated
// for the first time within these milliseconds, because any repetition since then would have renewed
// the time. The blob store has no operation that would exclude it.
func (s *Sweeper) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	again, err := s.blobs.List(ctx, name, "", 1)
	if err != nil || len(again) == 0 || s.clock.Now().Sub(again[0].Time) <= Grace {
		return err
	}
	return s.blobs.Delete(ctx, name)
}

// references returns the names of the blobs to which the runs and streams of a chain refer. It
// reports false if it cannot read all of them. It reads the runs in their order, so that it finds an
// item that moves to the next run meanwhile.
func (s *Sweeper) references(ctx context.Context, chain event.RunID, b *budget) (refs map[string]bool, known bool, err error) {
	r := &store.BlobNames{Chain: chain}
	var before, hole *store.Record // the last run that was read, and the one before the first missing run
	read := map[event.RunID]bool{}
	for run := chain; ; {
		if run == "" && hole != nil {
			if run, known, err = s.later(ctx, hole, read); err != nil || !known {
				return nil, false, err
			}
		}
		if run == "" {
			break
		}
		read[run] = true
		loaded, err := s.raw.Load(ctx, []store.Load{{Run: run, Inbox: true}})
		if err == nil {
			err = loaded[0].Err
		}
		switch {
		case errors.Is(err, store.ErrRunNotFound) && before == nil:
			known, err := s.gone(ctx, chain)
			return nil, known, err
		case errors.Is(err, store.ErrRunNotFound):
			run, hole = "", cmp.Or(hole, before)
			continue
		case err != nil:
			return nil, false, err
		}
		for _, frame := range loaded[0].Frames {
			b.bytes -= len(frame)
			if err := r.Frame(frame); err != nil {
				return nil, false, fmt.Errorf("run %s: %w", run, err)
			}
		}
		for i := range loaded[0].Inbox {
			if err := r.Item(loaded[0].Inbox[i].Body); err != nil {
				return nil, false, fmt.Errorf("item %s of run %s: %w", loaded[0].Inbox[i].ID, run, err)
			}
		}
		before = &loaded[0].Record
		if run = before.Next; read[run] {
			run = ""
		}
	}
	known, err = s.streams(ctx, chain, r, b)
	return r.Names, known, err
}

// gone reports whether no run of a chain exists whose first run cannot be read. The first run is
// purged last. It may have been deleted while a later run exists: it is then hidden until its purge,
// and its repeated deletion has no effect and no error.
func (s *Sweeper) gone(ctx context.Context, chain event.RunID) (bool, error) {
	purger, ok := store.As[store.Purger](s.raw)
	if !ok {
		return false, nil
	}
	err := purger.Delete(ctx, chain)
	if errors.Is(err, store.ErrRunNotFound) {
		return true, nil
	}
	if _, exists := errors.AsType[*store.NotEndedError](err); exists { // it was created meanwhile
		return false, nil
	}
	return false, err
}

// later returns a run of a chain that was created after the run before, or at the same time, and was
// not read. A run after before was purged or deleted. If there is no such run, later returns "". It
// reports false if there are too many runs to search.
func (s *Sweeper) later(ctx context.Context, before *store.Record, read map[event.RunID]bool) (run event.RunID, known bool, err error) {
	lister, ok := store.As[store.Lister](s.raw)
	if !ok {
		return "", false, nil
	}
	q := store.Query{Workflow: before.Route.Workflow, WorkflowID: before.WorkflowID, From: before.CreatedAt, Oldest: true, Limit: sweepPage}
	for range laterPages {
		page, err := lister.List(ctx, q)
		if err != nil {
			return "", false, err
		}
		for i := range page.Runs {
			if r := &page.Runs[i]; r.Chain == before.Chain && !read[r.Run] {
				return r.Run, true, nil
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return "", true, nil
		}
	}
	return "", false, nil
}

// streams adds the blobs of the streams of a chain.
func (s *Sweeper) streams(ctx context.Context, chain event.RunID, r *store.BlobNames, b *budget) (known bool, err error) {
	lister, ok := store.As[store.StreamLister](s.raw)
	if !ok {
		return false, nil
	}
	names, err := lister.StreamNames(ctx, chain)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		for from := uint64(1); ; {
			page, err := s.raw.ReadStream(ctx, store.ReadStream{Run: chain, Stream: name, From: from, Limit: sweepPage})
			if err != nil {
				return false, err
			}
			for i := range page.Chunks {
				b.bytes -= len(page.Chunks[i].Body)
				r.Data(page.Chunks[i].Body)
				from = page.Chunks[i].Index + 1
			}
			if len(page.Chunks) == 0 || from > page.Last {
				break
			}
		}
	}
	return true, nil
}
