package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // scripts have no other digest
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

var _ store.FailureGroupLister = (*Store)(nil)

// labelOf returns the script arguments for the label of a commit: the failure group, the properties
// of the group, and the retention of a group without runs. The group "-" removes the label. An
// empty group leaves the label unchanged, unless the commit ends the run.
func labelOf(c *store.Commit) []any {
	label, set := c.Label()
	switch {
	case !set || c.FailureGroup == nil:
		return []any{"", "", 0}
	case label.Group == "":
		return []any{"-", "", 0}
	}
	return []any{label.Group, packAbout(&label), store.FailureGroupKept.Milliseconds()}
}

// packAbout encodes the common properties of the runs of a failure group. No property contains a
// zero byte.
func packAbout(t *store.FailureGroup) string {
	return strings.Join([]string{string(t.Kind), t.Workflow, t.Step, t.Text}, "\x00")
}

// unpackFailureGroup decodes a stored failure group. It returns false if the value is invalid.
func unpackFailureGroup(group, packed string) (store.FailureGroupInfo, bool) {
	g := store.FailureGroupInfo{FailureGroup: store.FailureGroup{Group: group}}
	words := strings.SplitN(packed, " ", 4)
	if len(words) != 4 {
		return g, false
	}
	about := strings.Split(words[3], "\x00")
	if len(about) != 4 {
		return g, false
	}
	g.First, g.Last, g.Total = timeOf(parseNumber(words[0])), timeOf(parseNumber(words[1])), int(parseNumber(words[2]))
	g.Kind, g.Workflow, g.Step, g.Text = store.FailureKind(about[0]), about[1], about[2], about[3]
	return g, true
}

// FailureGroups returns a page of failure groups. From each partition it reads the groups that
// received a run most recently.
func (s *Store) FailureGroups(ctx context.Context, q store.FailureGroupQuery) (store.FailureGroupPage, error) {
	err := s.enter(ctx)
	if err == nil {
		_, _, err = q.After()
	}
	var page store.FailureGroupPage
	if err == nil {
		page, err = s.listFailureGroups(ctx, q)
	}
	if err != nil {
		return store.FailureGroupPage{}, fmt.Errorf("list failure groups: %w", err)
	}
	return page, nil
}

func (s *Store) listFailureGroups(ctx context.Context, q store.FailureGroupQuery) (store.FailureGroupPage, error) {
	var (
		mu    sync.Mutex
		found []store.FailureGroupInfo
		cut   bool
	)
	share := paging.FailureGroupShare(&q, len(s.parts))
	err := each(s.all(), func(p *partition, _ struct{}) error {
		var ids *redis.StringSliceCmd
		err := s.transaction(ctx, p, func(tx redis.Pipeliner) { ids = tx.ZRevRange(ctx, p.recent(), 0, int64(share)) })
		if err != nil {
			return err
		}
		for some := range slices.Chunk(ids.Val()[:min(len(ids.Val()), share)], mostRead) {
			groups, err := s.readGroups(ctx, p, some)
			if err != nil {
				return err
			}
			mu.Lock()
			found = append(found, groups...)
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		cut = cut || len(ids.Val()) > share
		return nil
	})
	if err != nil {
		return store.FailureGroupPage{}, err
	}
	return paging.FailureGroups(&q, found, cut)
}

// readGroups reads failure groups. It omits a group that is damaged or was removed since its ID was
// read.
func (s *Store) readGroups(ctx context.Context, p *partition, ids []string) (found []store.FailureGroupInfo, err error) {
	var kept *redis.SliceCmd
	open := make([]*redis.IntCmd, len(ids))
	err = s.transaction(ctx, p, func(tx redis.Pipeliner) {
		kept = tx.HMGet(ctx, p.failureGroups(), ids...)
		for i, id := range ids {
			open[i] = tx.ZCard(ctx, p.grouped(id))
		}
	})
	if err != nil {
		return nil, err
	}
	for i, packed := range kept.Val() {
		text, _ := packed.(string)
		if g, ok := unpackFailureGroup(ids[i], text); ok {
			g.Open = int(open[i].Val())
			found = append(found, g)
		}
	}
	return found, nil
}

func (v *view) readFailureGroups(ctx context.Context, tx redis.Pipeliner) {
	v.failureGroups = tx.HGetAll(ctx, v.p.failureGroups())
	v.recent, v.idle = tx.ZRangeWithScores(ctx, v.p.recent(), 0, -1), tx.ZRangeWithScores(ctx, v.p.idle(), 0, -1)
	v.failing, v.grouped = tx.ZRangeWithScores(ctx, v.p.failing(), 0, -1), map[string]*redis.ZSliceCmd{}
	for _, group := range v.keys.groups {
		v.grouped[group] = tx.ZRangeWithScores(ctx, v.p.grouped(group), 0, -1)
	}
}

// showFailureGroups adds the failure groups and the runs in their sets to a snapshot.
func (v *view) showFailureGroups(snap *store.Snapshot) {
	for group, packed := range v.failureGroups.Val() {
		g, _ := unpackFailureGroup(group, packed)
		snap.AddFailureGroup(g, longAll(members(v.grouped[group])))
	}
	snap.AddFailing(longAll(members(v.failing)))
}

// showGroups is like showFailureGroups without the excluded runs. It also records the entries of
// each run.
func (e *partitionState) showGroups() {
	for _, group := range sortedKeys(e.grouped) {
		runs := e.judged(members(e.grouped[group]))
		for _, run := range runs {
			e.at(run, e.p.grouped(group), run)
		}
		g, _ := unpackFailureGroup(group, e.failureGroups.Val()[group])
		if e.failureGroups.Val()[group] != "" || len(runs) > 0 {
			e.snap.AddFailureGroup(g, longAll(runs))
		}
	}
	runs := e.judged(members(e.failing))
	for _, run := range runs {
		e.at(run, e.p.failing(), run)
	}
	e.snap.AddFailing(longAll(runs))
}

// groupsOf returns the keys of the sets of labeled runs that contain the given run.
func (e *partitionState) groupsOf(run string) (keys []string) {
	for _, at := range e.entries[run] {
		if letter := at.key[len(e.p.tag)]; letter == 'I' || letter == 'U' {
			keys = append(keys, at.key)
		}
	}
	return keys
}

// lookAtPlaces reports a labeled run whose creation time in a set is wrong.
func (e *partitionState) lookAtPlaces(run string, r *store.RunState, found func(invariant int, what, explain string)) {
	for _, set := range []*redis.ZSliceCmd{e.grouped[r.Group], e.failing} {
		if set == nil {
			continue
		}
		for _, z := range set.Val() {
			if z.Member == run && int64(z.Score) != r.CreatedAt.UnixMilli() {
				found(23, fmt.Sprintf("it was created at %d, but is listed in failure groups at %.0f", r.CreatedAt.UnixMilli(), z.Score), "pages of these lists skip or repeat it")
			}
		}
	}
}

// examineFailureGroups compares the stored failure groups with the runs that have their labels. It
// does not examine the sets of runs, which are repaired together with each run.
func (e *partitionState) examineFailureGroups() {
	if e.unread != nil {
		return // runs that could not be read would be missing from their groups
	}
	first, last, open := map[string]int64{}, map[string]int64{}, map[string]int{}
	for _, r := range e.snap.Runs {
		if g := r.Group; g != "" {
			at := r.CreatedAt.UnixMilli()
			if open[g] == 0 || at < first[g] {
				first[g] = at
			}
			last[g], open[g] = max(last[g], at), open[g]+1
		}
	}
	recent, idle := scores(e.recent), scores(e.idle)
	groups := map[string]bool{}
	for _, known := range []map[string]string{recent, idle, e.failureGroups.Val()} {
		for g := range known {
			groups[g] = true
		}
	}
	for g := range open {
		groups[g] = true
	}
	for _, g := range sortedKeys(groups) {
		packed := e.failureGroups.Val()[g]
		kept, ok := unpackFailureGroup(g, packed)
		var swaps []swap
		fix := func(key, kind, seen, value string) {
			if seen != value {
				swaps = append(swaps, swap{key: key, kind: kind, field: g, seen: seen, value: value})
			}
		}
		at, none := number(kept.Last.UnixMilli()), ""
		switch {
		case !ok && open[g] > 0:
			at = number(last[g])
			fix(e.p.failureGroups(), inHash, packed, fmt.Sprintf("%d %d %d ", first[g], last[g], open[g])+packAbout(&store.FailureGroup{}))
		case !ok:
			at = ""
			fix(e.p.failureGroups(), inHash, packed, "")
		}
		if open[g] == 0 {
			none = at
		}
		fix(e.p.recent(), inZSet, recent[g], at)
		fix(e.p.idle(), inZSet, idle[g], none)
		if len(swaps) > 0 {
			e.repairable(store.Defect{
				Invariant: 23, What: fmt.Sprintf("group %s has %d runs, but is recorded as %q, in order at %q, and without runs at %q", g, open[g], packed, recent[g], idle[g]),
				Explain: "it is not listed, or deleted too early or never",
			}, "write it again", swaps...)
		}
	}
}

// scores returns the score of each member of a set.
func scores(set *redis.ZSliceCmd) map[string]string {
	all := map[string]string{}
	for _, z := range set.Val() {
		member, _ := z.Member.(string)
		all[member] = number(int64(z.Score))
	}
	return all
}

// A label set contains the runs with a common label, which is a workflow ID or a tag. The script
// part label.lua computes the same names.

// labelCode returns the code of a label, which has 16 characters. Two labels with the same code
// share a set; a search then filters the runs by their records.
func labelCode(l store.Label) string {
	text := packText(l.Tag) + packText(l.Value)
	if l.WorkflowID != "" {
		text = "w" + widKey(l.WorkflowID)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:8])
}

// labelSets returns the sets of a partition for the labels in q. Each set contains all matching
// runs, and the set of the workflow ID is the first. The result is empty if q has no label.
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

// knownLabels returns the codes of the labels of all runs, and the codes of all label sets that
// exist.
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

// showLabels adds the runs in the label sets to a snapshot. A label that no run has is represented
// by its code.
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

// scanLabels is like showLabels without the excluded runs. It also records the entries of each run.
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
