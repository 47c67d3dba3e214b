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

// labelSets returns the sets of a partition each of which has all runs that match, that of a
// workflow id first; none: the query has no label.
func labelSets(p *partition, q *store.Query) (sets []runSet) {
	for _, l := range q.Labels() {
		sets = append(sets, runSet{key: p.labelled(labelCode(l))})
	}
	return sets
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

// showLabels adds by which labels runs are found. One that no run has is named by its code.
func (v *view) showLabels(snap *store.Snapshot) {
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
func (e *partitionState) scanLabels() {
	e.misplaced = map[string]bool{}
	for _, code := range sortedKeys(e.labelled) {
		for _, z := range indexedIn(e.labelled[code]) {
			if e.unread[z.run] {
				continue
			}
			e.at(z.run, e.p.labelled(code), z.run)
			if r := e.snap.Runs[long(z.run)]; r != nil && r.CreatedAt.UnixMilli() != z.created {
				e.misplaced[z.run] = true
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
