package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// A run has a failure group while it has failed, while one of its steps is retried after a failure,
// or while it is blocked. Runs with the same failure have the same group. The worker sets or clears
// the group in the commit that changes the state of the run, so the two are always consistent. A
// store keeps the group unchanged and never refuses a commit because of it. It keeps the common
// data of a group once.
//
// A run keeps its group until a commit changes the group, with two exceptions. A run that ends
// without failing has no group, and a run that was deleted or purged is in no group.

// FailureKind is the kind of failure of the runs in a group.
type FailureKind string

// Kinds of failures.
const (
	FailureKindFailed   FailureKind = "failed"   // the run has failed
	FailureKindRetrying FailureKind = "retrying" // a step of the run has failed and is retried
	FailureKindBlocked  FailureKind = "blocked"  // the code cannot replay the run, or the stored data of the run are damaged or too large
)

// FailureKinds returns all kinds of failures.
func FailureKinds() []FailureKind {
	return []FailureKind{FailureKindFailed, FailureKindRetrying, FailureKindBlocked}
}

// FailureGroup is a failure group with the common data of its runs. The zero value means no group.
type FailureGroup struct {
	// Group is the ID of the group. It consists of letters, digits and hyphens, at most MaxGroup
	// bytes.
	Group    string
	Kind     FailureKind
	Workflow string
	Step     string // empty if the failure does not concern a step
	// Text describes the failure, in at most MaxFailureGroupText bytes. A store may keep it longer
	// than any run of the group, so it must not contain data of a single run.
	Text string
}

// Limits of a FailureGroup, in bytes.
const (
	MaxGroup            = 32
	MaxFailureGroupText = 512
)

// FailureGroupKept is the minimum time for which an empty group is kept. It counts from the time at
// which a run last entered the group.
const FailureGroupKept = 30 * 24 * time.Hour

// CheckGroup returns an *InvalidError if the ID of a group is invalid.
func CheckGroup(group string) error {
	wrong := func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if group == "" || len(group) > MaxGroup || strings.ContainsFunc(group, wrong) {
		return &InvalidError{What: "group", Value: strings.ToValidUTF8(group[:min(len(group), 100)], ""), Reason: fmt.Sprintf("is not 1 to %d letters, digits and hyphens", MaxGroup)}
	}
	return nil
}

// Kept returns the part of t that every store keeps. It cuts texts that are too long and replaces
// invalid text. If the ID of the group is invalid, it returns the zero value and no error, because
// a commit must not fail because of its group.
func (t *FailureGroup) Kept() FailureGroup {
	if CheckGroup(t.Group) != nil {
		return FailureGroup{}
	}
	return FailureGroup{
		Group: t.Group, Kind: FailureKind(KeptText(string(t.Kind), MaxGroup)), Workflow: KeptText(t.Workflow, MaxName),
		Step: KeptText(t.Step, MaxName), Text: KeptText(t.Text, MaxFailureGroupText),
	}
}

// KeptText returns s with invalid text replaced, cut to at most limit bytes.
func KeptText(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") // the cut may have divided a character
	}
	return s
}

// Label returns the failure group that the commit sets. set reports whether the commit changes the
// group. If set is true and label is the zero value, the commit removes the group.
func (c *Commit) Label() (label FailureGroup, set bool) {
	ends := c.Effect == EffectFinish || c.Effect == EffectContinue
	if c.FailureGroup == nil {
		return FailureGroup{}, ends
	}
	label = c.FailureGroup.Kept()
	if ends && (label.Kind != FailureKindFailed || c.Status != event.StatusFailed) {
		label = FailureGroup{}
	}
	return label, true
}

// FailureGroupLister is a store that can list the failure groups of its runs.
type FailureGroupLister interface {
	// FailureGroups returns a page of failure groups, ordered by the time at which a run last
	// entered the group, newest first.
	FailureGroups(ctx context.Context, q FailureGroupQuery) (FailureGroupPage, error)
}

// FailureGroupQuery selects failure groups. A group must match all fields. The zero value selects
// all groups.
type FailureGroupQuery struct {
	Groups   []string // IDs of groups, any of which matches; empty selects all
	Kinds    []FailureKind
	Workflow string
	Step     string
	Since    time.Time // selects groups that a run has entered at this time or later
	Open     bool      // selects groups that contain runs
	// Cursor is the cursor of the previous page. If a run enters a group between the two calls, the
	// group moves to the front and is not on the following pages.
	Cursor string
	Limit  int // maximum number of groups of the page; 100 if not positive
	// Budget is the maximum number of groups to read. It is divided among the partitions. If it is
	// not positive, DefaultBudget is used.
	Budget int
}

// FailureGroupPage is a page of failure groups.
type FailureGroupPage struct {
	Groups []FailureGroupInfo
	Cursor string // cursor for the next page; empty for the last page
	// Partial reports that the store has more groups than the budget permits to read. The numbers
	// may be too low, and groups that no run has entered recently may be missing.
	Partial bool
	Looked  int
}

// FailureGroupInfo is a failure group with its counts.
type FailureGroupInfo struct {
	FailureGroup
	First, Last time.Time // times at which a run first and last entered the group
	// Total is the number of times that a run has entered the group. Open is the number of runs
	// that the group contains.
	Total, Open int
}

// FailureGroupState is a failure group in a snapshot.
type FailureGroupState struct {
	FailureGroupInfo
	Runs []event.RunID // runs in the index of the group, sorted
}

// After returns the last group of the previous page, and the time at which a run last entered that
// group. The group is empty if the query begins with the first page.
func (q *FailureGroupQuery) After() (last time.Time, group string, err error) {
	if q.Cursor == "" {
		return time.Time{}, "", nil
	}
	at, group, _ := strings.Cut(q.Cursor, ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		err = CheckGroup(group)
	}
	if err != nil {
		return time.Time{}, "", fmt.Errorf("read cursor: %w", err)
	}
	return time.UnixMilli(ms).UTC(), group, nil
}

// MergeFailureGroups adds the counts of the groups from several partitions. It sorts the groups by
// the time at which a run last entered them, newest first.
func MergeFailureGroups(found []FailureGroupInfo) []FailureGroupInfo {
	all := make([]FailureGroupInfo, 0, len(found))
	at := make(map[string]int, len(found))
	for _, g := range found {
		i, known := at[g.Group]
		if !known {
			at[g.Group], all = len(all), append(all, g)
			continue
		}
		all[i].add(g)
	}
	slices.SortFunc(all, func(a, b FailureGroupInfo) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Group, b.Group)) })
	return all
}

// add adds the counts of the same group in another partition. If the properties of the group were
// lost in one partition, it uses the properties of the other.
func (g *FailureGroupInfo) add(o FailureGroupInfo) {
	if o.First.Before(g.First) {
		g.First = o.First
	}
	if o.Last.After(g.Last) {
		g.Last = o.Last
	}
	if g.Kind == "" {
		g.FailureGroup = o.FailureGroup
	}
	g.Total, g.Open = g.Total+o.Total, g.Open+o.Open
}

// AddFailureGroup adds the counts of a group in a partition, and the runs that the index of this
// partition contains.
func (s *Snapshot) AddFailureGroup(g FailureGroupInfo, runs []event.RunID) {
	g.Open = len(runs)
	state, known := s.FailureGroups[g.Group]
	if known {
		state.add(g)
	} else {
		state.FailureGroupInfo = g
	}
	state.Runs = append(state.Runs, runs...)
	slices.Sort(state.Runs)
	s.FailureGroups[g.Group] = state
}

// AddFailing adds the runs in the index of a partition that contains the runs of all groups.
func (s *Snapshot) AddFailing(runs []event.RunID) {
	s.Failing = append(s.Failing, runs...)
	slices.Sort(s.Failing)
}
