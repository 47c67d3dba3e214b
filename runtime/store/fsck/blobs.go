package fsck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// orphanAge is the age above which a blob without a reference is a violation. Workers remove such blobs
// after a day, because a commit may still refer to them.
const orphanAge = 48 * time.Hour

// blobChecker checks invariant 26. It requires no key. It keeps the names of all blobs in memory.
type blobChecker struct {
	raw   store.Store
	blobs store.BlobStore                        // nil: blobs are not checked
	refs  map[event.RunID]map[string]event.RunID // a run that refers to a blob, by chain and name
	sent  map[string]bool                        // hashes of the blobs of records in outboxes
}

func newBlobChecker(raw store.Store, blobs store.BlobStore) *blobChecker {
	return &blobChecker{raw: raw, blobs: blobs, refs: map[event.RunID]map[string]event.RunID{}, sent: map[string]bool{}}
}

// collect adds the blobs to which the runs, streams and records of a partition refer. It ignores data
// that cannot be decoded, which other invariants report.
func (b *blobChecker) collect(s *store.Snapshot) {
	if b.blobs == nil {
		return
	}
	for id, r := range s.Runs {
		names := store.BlobNames{Chain: r.Chain}
		for _, frame := range r.Frames {
			_ = names.Frame(frame)
		}
		for i := range r.Inbox {
			_ = names.Item(r.Inbox[i].Body)
		}
		b.add(id, &names)
	}
	for chain, streams := range s.Streams {
		names := store.BlobNames{Chain: chain}
		for _, stream := range streams {
			for i := range stream.Chunks {
				names.Data(stream.Chunks[i].Body)
			}
		}
		b.add(chain, &names)
	}
	for i := range s.Outbox {
		m, err := effects.DecodeOutboxMessage(s.Outbox[i].Body)
		if err != nil {
			continue
		}
		var names store.BlobNames
		if m.Start != nil {
			_ = names.Frame(m.Start.Frame)
		}
		if m.Item != nil {
			_ = names.Item(m.Item.Body)
		}
		for name := range names.Names {
			b.sent[strings.TrimPrefix(name, "/")] = true
		}
	}
}

func (b *blobChecker) add(run event.RunID, names *store.BlobNames) {
	if len(names.Names) > 0 && b.refs[names.Chain] == nil {
		b.refs[names.Chain] = map[string]event.RunID{}
	}
	for name := range names.Names {
		b.refs[names.Chain][name] = run
	}
}

// check compares the collected names with the blob store. The findings remain: a lost blob can only be
// restored from a backup, and workers remove orphans.
func (b *blobChecker) check(ctx context.Context) (fixes []Fix, err error) {
	if b.blobs == nil {
		return nil, nil
	}
	orphans := map[event.RunID][]store.Blob{}
	now := b.raw.Clock().Now()
	for after := ""; ; {
		page, err := b.blobs.List(ctx, "", after, 1000)
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		if len(page) == 0 {
			break
		}
		for _, blob := range page {
			after = blob.Name
			prefix, hash, _ := strings.Cut(blob.Name, "/")
			chain := event.RunID(prefix)
			if _, used := b.refs[chain][blob.Name]; used {
				delete(b.refs[chain], blob.Name)
			} else if now.Sub(blob.Time) > orphanAge && !b.sent[hash] {
				orphans[chain] = append(orphans[chain], blob)
			}
		}
	}
	if fixes, err = b.missing(ctx); err != nil {
		return nil, err
	}
	for _, chain := range slices.Sorted(maps.Keys(orphans)) {
		fixes = append(fixes, orphaned(chain, orphans[chain]))
	}
	return fixes, nil
}

// missing returns the fixes of the names that were not in the blob store. It checks again, because a
// run may have been purged, or a blob restored, in the meantime.
func (b *blobChecker) missing(ctx context.Context) (fixes []Fix, err error) {
	for _, chain := range slices.Sorted(maps.Keys(b.refs)) {
		for _, name := range slices.Sorted(maps.Keys(b.refs[chain])) {
			run := b.refs[chain][name]
			loaded, err := b.raw.Load(ctx, []store.Load{{Run: run, Limit: -1}})
			if err != nil {
				return nil, err
			}
			found, err := b.blobs.List(ctx, name, "", 1)
			if err != nil {
				return nil, fmt.Errorf("list blobs: %w", err)
			}
			if loaded[0].Err != nil || len(found) > 0 {
				continue
			}
			fixes = append(fixes, Fix{
				Run: run, Outcome: OutcomeRemains, Why: "restore the blob from a backup",
				Findings: []Finding{{Invariant: 26, Run: run, What: fmt.Sprintf("blob %s is missing from the blob store", name), Explain: "a part of its data cannot be read"}},
			})
		}
	}
	return fixes, nil
}

func orphaned(chain event.RunID, blobs []store.Blob) Fix {
	size := int64(0)
	for i := range blobs {
		size += blobs[i].Size
	}
	what := fmt.Sprintf("blob %s, and %d others of its chain with %d bytes together, are more than %v old, and no data refer to them", blobs[0].Name, len(blobs)-1, size, orphanAge)
	if len(blobs) == 1 {
		what = fmt.Sprintf("blob %s of %d bytes is more than %v old, and no data refer to it", blobs[0].Name, size, orphanAge)
	}
	return Fix{
		Outcome: OutcomeRemains, Why: "a worker with this blob store removes it",
		Findings: []Finding{{Invariant: 26, What: what, Explain: "it occupies space"}},
	}
}
