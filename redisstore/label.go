package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // scripts have no other digest
	"encoding/hex"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The sets of runs that have a label in common. Part label of the scripts names them in the same way.

// labelCode names a label in 16 characters. Two that have one name by chance are found together, and told apart by
// the records.
func labelCode(l store.Label) string {
	text := packText(l.Tag) + packText(l.Value)
	if l.WorkflowID != "" {
		text = "w" + widKey(l.WorkflowID)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:8])
}

// hasLabels reports whether all runs are in the sets of their labels: whether the store has the present format. One that
// had the older one is asked again, for Migrate may have ended since.
func (s *Store) hasLabels(ctx context.Context, p *partition) (bool, error) {
	if err := s.prepare(ctx, p); err != nil {
		return false, err
	}
	if !s.labelled.Load() && s.client.Get(ctx, s.parts[0].format()).Val() == s.mark() {
		s.labelled.Store(true)
	}
	return s.labelled.Load(), nil
}

// labelSets returns the sets of a partition each of which has all runs that match, that of a workflow id first; none: there
// are no such sets.
func (s *Store) labelSets(ctx context.Context, p *partition, q *store.Query) (sets []runSet, err error) {
	labels := q.Labels()
	if len(labels) == 0 {
		return nil, nil
	}
	if has, err := s.hasLabels(ctx, p); !has {
		return nil, err
	}
	for _, l := range labels {
		sets = append(sets, runSet{key: p.labelled(labelCode(l))})
	}
	return sets, nil
}

// labelsOf returns the codes of the labels that a run has.
func (v *view) labelsOf(run string) (codes []string) {
	r := store.Record{WorkflowID: v.metaOf(run)["w"]}
	v.extraOf(run).describe(&r)
	for _, l := range r.Labels() {
		codes = append(codes, labelCode(l))
	}
	return codes
}

// knownLabels returns the codes of the labels that runs have, and of those that have had runs when they were read.
func (v *view) knownLabels() (codes []string) {
	for run := range v.runs {
		codes = append(codes, v.labelsOf(run)...)
	}
	for code, set := range v.labelled {
		if len(set.Val()) > 0 {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func (v *view) readLabels(ctx context.Context, tx redis.Pipeliner) {
	v.labelled = map[string]*redis.ZSliceCmd{}
	for _, code := range v.keys.labels {
		v.labelled[code] = tx.ZRangeWithScores(ctx, v.p.labelled(code), 0, -1)
	}
}

// showLabels adds by which labels runs are found, if that can be wrong. One that no run has is named by its code.
func (v *view) showLabels(snap *store.Snapshot) {
	if !v.hasLabels {
		return
	}
	if snap.Labels == nil {
		snap.Labels = map[event.RunID][]string{}
	}
	names := map[string]string{}
	for run := range v.runs {
		if r := snap.Runs[long(run)]; r != nil {
			for _, l := range r.Labels() {
				names[labelCode(l)] = l.String()
			}
		}
	}
	for _, code := range sortedKeys(v.labelled) {
		name, known := names[code]
		if !known {
			name = unnamed + code
		}
		for _, run := range longAll(members(v.labelled[code])) {
			snap.Labels[run] = append(snap.Labels[run], name)
		}
	}
}

// scanLabels is showLabels without the runs that are not judged, and notes where each run stands.
func (e *partitionScan) scanLabels() {
	e.misplaced = map[string]bool{}
	for _, code := range sortedKeys(e.labelled) {
		for _, z := range indexedIn(e.labelled[code]) {
			if e.unread[z.run] {
				continue
			}
			e.at(z.run, e.p.labelled(code), z.run)
			if r := e.snap.Runs[long(z.run)]; r != nil && r.CreatedAt.UnixMilli() != z.created {
				e.misplaced[z.run] = e.hasLabels
			}
		}
	}
	e.showLabels(e.snap)
	for run := range e.unread {
		if e.unread[run] {
			delete(e.snap.Labels, long(run))
		}
	}
}
