package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// KeyUse is the use of one key of a codec in a store.
type KeyUse struct {
	Key   string // empty for user data that are not encrypted
	Data  int    // number of fields of events and items
	Bytes int64  // their size in the store, without data that are kept outside of it
	Runs  int    // number of runs with such data
	Open  int    // number of these runs that have not ended
	// Journal is the number of entries of the journal with such a reason.
	Journal int
}

// CodecStatus contains the keys of the user data in a store.
type CodecStatus struct {
	Runs int // number of runs that were read
	// Keys are sorted by their IDs. A key that is not listed is required by no run and by no entry of
	// the journal. Chunks of streams, heartbeats of running steps and records of outboxes are not counted: they have the
	// keys that were active while a run was executed.
	Keys []KeyUse
}

// codecPage is the number of runs that a request reads.
const codecPage = 100

// CodecStatus reads all runs of the store and the journal, and counts their user data by key. It
// requires no key. It calls tell after each page with the result so far; tell may be nil.
func (c *Client) CodecStatus(ctx context.Context, tell func(CodecStatus)) (CodecStatus, error) {
	var all CodecStatus
	keys := map[string]*KeyUse{}
	err := c.eachRun(ctx, func(runs []store.Record) error {
		loads := make([]store.Load, len(runs))
		for i := range runs {
			loads[i] = store.Load{Run: runs[i].Run, Inbox: true}
		}
		loaded, err := sealed.Raw(c.store).Load(ctx, loads)
		if err != nil {
			return err
		}
		for i := range loaded {
			l := &loaded[i]
			if errors.Is(l.Err, store.ErrRunNotFound) {
				continue // deleted in the meantime
			}
			uses := map[string]sealed.Use{}
			err := l.Err
			if err == nil {
				err = sealed.Count(uses, l)
			}
			if err != nil {
				return fmt.Errorf("run %s: %w", runs[i].Run, err)
			}
			all.add(keys, uses, l.Record.QueueState != store.StateEnded)
		}
		all.sort(keys)
		if tell != nil {
			tell(all)
		}
		return nil
	})
	var reasons map[string]int
	if err == nil {
		reasons, err = sealed.CountJournal(ctx, c.store)
	}
	if err != nil {
		return all, fmt.Errorf("codec status: %w", err)
	}
	for key, n := range reasons {
		useOf(keys, key).Journal = n
	}
	all.sort(keys)
	return all, nil
}

func useOf(keys map[string]*KeyUse, key string) *KeyUse {
	if keys[key] == nil {
		keys[key] = &KeyUse{Key: key}
	}
	return keys[key]
}

// add adds the data of a run.
func (s *CodecStatus) add(keys map[string]*KeyUse, uses map[string]sealed.Use, open bool) {
	s.Runs++
	for key, use := range uses {
		k := useOf(keys, key)
		k.Data, k.Bytes, k.Runs = k.Data+use.Data, k.Bytes+use.Bytes, k.Runs+1
		if open {
			k.Open++
		}
	}
}

func (s *CodecStatus) sort(keys map[string]*KeyUse) {
	s.Keys = nil
	for _, k := range keys {
		s.Keys = append(s.Keys, *k)
	}
	slices.SortFunc(s.Keys, func(a, b KeyUse) int { return cmp.Compare(a.Key, b.Key) })
}

// eachRun calls f with all runs of the store, a page at a time.
func (c *Client) eachRun(ctx context.Context, f func([]store.Record) error) error {
	lister, err := capability[store.Lister](c, "list runs")
	if err != nil {
		return err
	}
	for q := (store.Query{Limit: codecPage, Oldest: true}); ; {
		page, err := lister.List(ctx, q)
		if err == nil && len(page.Runs) > 0 {
			err = f(page.Runs)
		}
		if err != nil || page.Cursor == "" {
			return err
		}
		q.Cursor = page.Cursor
	}
}

// Resealed is the progress of Reseal.
type Resealed struct {
	Runs    int // number of runs that were read
	Changed int // number of runs that were sealed again
	Open    int // number of runs that were skipped because they have not ended
	Journal int // number of entries of the journal whose reasons were sealed again
}

// Reseal seals the user data of all runs that have ended, and the reasons in the journal, with the
// active key of the client's codec. It also seals data that were stored before a codec was used. It can be interrupted and repeated.
// Open runs are skipped: they can be sealed again after their end. Without a codec, the error matches
// workflow.ErrNotSupported. Reseal calls tell after each page with the result so far; tell may be
// nil.
func (c *Client) Reseal(ctx context.Context, tell func(Resealed)) (Resealed, error) {
	var all Resealed
	s, ok := store.As[*sealed.Store](c.store)
	if !ok {
		return all, fmt.Errorf("reseal: the client has no codec: set ClientConfig.Codec, or for flowctl FLOWGEN_CODEC_KEYS_FILE: %w", workflow.ErrNotSupported)
	}
	err := c.eachRun(ctx, func(runs []store.Record) error {
		for i := range runs {
			all.Runs++
			if runs[i].QueueState != store.StateEnded {
				all.Open++
				continue
			}
			changed, err := s.Reseal(ctx, runs[i].Run)
			if err != nil && !errors.Is(err, store.ErrRunNotFound) {
				return fmt.Errorf("run %s: %w", runs[i].Run, err)
			}
			if changed {
				all.Changed++
			}
		}
		if tell != nil {
			tell(all)
		}
		return nil
	})
	if err == nil {
		all.Journal, err = s.ResealJournal(ctx)
	}
	if err != nil {
		return all, fmt.Errorf("reseal: %w", err)
	}
	return all, nil
}
