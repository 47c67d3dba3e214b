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

// The failure group of a run (a FailureGroup in code) is set while the run has failed, a step of it is
// being retried, or it is blocked. Runs with the same failure have the same group. The worker that
// commits sets or clears the group with the commit that changes the state, so that both always
// agree. A store keeps the group as given and never refuses a commit because of it. The store keeps
// the common data of a group once.
//
// A run keeps its group until a commit changes it, with two exceptions: a run that ends without
// failing has none, and a run that was deleted or purged is in no group.

// FailureKind is the kind of failure of a group.
type FailureKind string

// The kinds of trouble.
const (
	FailureKindFailed   FailureKind = "failed"   // the run has failed
	FailureKindRetrying FailureKind = "retrying" // a step of it has failed and is being retried
	FailureKindBlocked  FailureKind = "blocked"  // the code cannot replay the run, or its stored data are damaged or too large
)

// FailureKinds returns all kinds.
func FailureKinds() []FailureKind {
	return []FailureKind{FailureKindFailed, FailureKindRetrying, FailureKindBlocked}
}

// FailureGroup is a failure group with the data common to its runs. The zero value means no group.
type FailureGroup struct {
	// Group is the ID: letters, digits and hyphens, at most MaxGroup bytes.
	Group    string
	Kind     FailureKind
	Workflow string
	Step     string // empty if the failure concerns no step
	// Text describes the failure, in at most MaxFailureGroupText bytes. It may be kept longer than any
	// of the runs, so it contains no data of a single run.
	Text string
}

// The limits of a FailureGroup, in bytes.
const (
	MaxGroup            = 32
	MaxFailureGroupText = 512
)

// FailureGroupKept is the minimum duration for which an empty group is kept after the last run has
// entered it.
const FailureGroupKept = 30 * 24 * time.Hour

// CheckGroup returns an *InvalidError if the ID of a group is not valid.
func CheckGroup(group string) error {
	wrong := func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if group == "" || len(group) > MaxGroup || strings.ContainsFunc(group, wrong) {
		return &InvalidError{What: "group", Value: strings.ToValidUTF8(group[:min(len(group), 100)], ""), Reason: fmt.Sprintf("is not 1 to %d letters, digits and hyphens", MaxGroup)}
	}
	return nil
}

// Kept returns the part of t that every store keeps: texts that are too long are cut, and invalid
// text is replaced. It returns the zero value if the ID of the group is invalid, because a group
// never makes a commit fail.
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
		s = strings.ToValidUTF8(s[:limit], "") // a character may have been cut
	}
	return s
}

// Label returns the failure group that the commit sets. If set is true, the zero value removes the
// group.
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

// FailureGroupLister is a store that lists the failure groups of its runs.
type FailureGroupLister interface {
	// FailureGroups returns a page of groups, ordered by the time at which a run last entered them,
	// newest first.
	FailureGroups(ctx context.Context, q FailureGroupQuery) (FailureGroupPage, error)
}

// FailureGroupQuery selects groups. The zero value selects all; all fields must match.
type FailureGroupQuery struct {
	Groups   []string // any of these
	Kinds    []FailureKind
	Workflow string
	Step     string
	Since    time.Time // selects groups that a run has entered at this time or later
	Open     bool      // selects groups that contain runs now
	// Cursor continues after the page that returned it. A group that a run enters in the meantime
	// moves to the front, and is not on the following pages.
	Cursor string
	Limit  int // groups per page; not positive means 100
	// Budget is the maximum number of groups to read, divided among the partitions; not positive
	// means DefaultBudget.
	Budget int
}

// FailureGroupPage is a page of failure groups.
type FailureGroupPage struct {
	Groups []FailureGroupInfo
	Cursor string // of the next page; empty for the last page
	// Partial reports that the budget was smaller than the number of groups: the numbers may be too
	// low, and groups that no run has entered recently may be missing.
	Partial bool
	Looked  int
}

// FailureGroupInfo is a failure group with its counts.
type FailureGroupInfo struct {
	FailureGroup
	First, Last time.Time // when a run first and last entered the group
	// Total is the number of times a run has entered the group, and Open the number of runs in it
	// now.
	Total, Open int
}

// FailureGroupState is a failure group in a snapshot.
type FailureGroupState struct {
	FailureGroupInfo
	Runs []event.RunID // the runs in its index, sorted
}

// After returns the last group of the previous page, and the time at which a run last entered it.
// The group is empty if the query begins with the first one.
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

// MergeFailureGroups merges the counts of several partitions for the same groups, and sorts the groups
// by the time of their last entry, newest first.
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

// add adds the counts of another partition. Text that was lost in one partition is taken from the
// other.
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

// AddFailureGroup adds the counts of a group in a partition, and the runs in its index there.
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

// AddFailing adds the runs in the index of a partition for all groups.
func (s *Snapshot) AddFailing(runs []event.RunID) {
	s.Failing = append(s.Failing, runs...)
	slices.Sort(s.Failing)
}
