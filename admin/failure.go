package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
)

// FailureFilter selects failure groups. The zero value selects all.
type FailureFilter struct {
	Group    string    `json:"group,omitempty"`
	Kinds    []string  `json:"kinds,omitempty"` // any of these kinds; see [FailureKinds]
	Workflow string    `json:"workflow,omitempty"`
	Step     string    `json:"step,omitempty"`
	Since    time.Time `json:"since,omitzero"`   // selects groups to which a run was added at this time or later
	Open     bool      `json:"open,omitempty"`   // selects groups that contain runs at present
	Cursor   string    `json:"cursor,omitempty"` // cursor of the previous [FailurePage]
	Limit    int       `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
	Budget   int       `json:"budget,omitempty"` // maximum number of groups to read; 0 means 20,000
}

// FailureGroup describes a group of runs with the same failure. A run is in at most one group,
// whose ID is [Run].Group.
type FailureGroup struct {
	Group    string    `json:"group"` // stable ID, such as f1-9c0e11a2b3d4
	Kind     string    `json:"kind"`  // one of [FailureKinds]
	Workflow string    `json:"workflow"`
	Step     string    `json:"step,omitempty"`
	Message  string    `json:"message"` // error text; § replaces IDs, numbers, times, quoted text and addresses
	First    time.Time `json:"first"`   // time at which the first run was added
	Last     time.Time `json:"last"`
	Runs     int       `json:"runs"` // number of times that a run was added
	Open     int       `json:"open"` // number of runs in the group at present
}

// FailurePage is a page of failure groups, sorted by the time of their latest failure, the newest
// first.
type FailurePage struct {
	Groups []FailureGroup `json:"groups"`
	Cursor string         `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
	// Partial reports whether there are more groups than the budget. If so, numbers may be too low,
	// and old groups may be missing.
	Partial bool `json:"partial"`
}

// FailureKinds returns the kinds of failures. They are runs that have failed, runs with a step that
// is being retried, and blocked runs.
func FailureKinds() []string {
	var all []string
	for _, k := range store.FailureKinds() {
		all = append(all, string(k))
	}
	return all
}

func (f *FailureFilter) filter() (ops.FailureFilter, error) {
	got := ops.FailureFilter{
		Workflow: f.Workflow, Step: f.Step, Since: f.Since, Open: f.Open, Cursor: f.Cursor, Limit: f.Limit, Budget: f.Budget,
	}
	if f.Group != "" {
		got.Groups = []string{f.Group}
	}
	for _, k := range f.Kinds {
		if err := checkOneOf("kind of failures", k, FailureKinds()); err != nil {
			return got, err
		}
		got.Kinds = append(got.Kinds, ops.FailureKind(k))
	}
	_, _, badCursor := got.After()
	if err := checkPage("groups", f.Limit, f.Budget, badCursor); err != nil {
		return got, err
	}
	return got, checkGroup(f.Group)
}

// checkGroup returns an error unless group is empty or the ID of a failure group.
func checkGroup(group string) error {
	if group == "" || store.CheckGroup(group) == nil {
		return nil
	}
	return &InputError{What: fmt.Sprintf("%q is not the id of a group", group), Fix: "take it from a list of failures, as f1-9c0e11a2b3d4"}
}

// Failures returns a page of failure groups. The groups contain runs that have failed, that retry a
// step, or that are blocked. The numbers and messages of a group cover the runs of all owners.
func (s *Service) Failures(ctx context.Context, f FailureFilter) (FailurePage, error) {
	if err := s.all(RoleViewer, "see failures", "list runs with the filter failing"); err != nil {
		return FailurePage{}, err
	}
	page, err := s.failures(ctx, f)
	veil(s.who, &page)
	return page, err
}

// failures is like [Service.Failures], but does not check the rights of the principal.
func (s *Service) failures(ctx context.Context, f FailureFilter) (FailurePage, error) {
	asked, err := f.filter()
	if err != nil {
		return FailurePage{}, err
	}
	page, err := s.ops.FailureGroups(ctx, asked)
	if err != nil {
		return FailurePage{}, err
	}
	got := FailurePage{Groups: []FailureGroup{}, Cursor: page.Cursor, Partial: page.Partial}
	for _, g := range page.Groups {
		if event.Helper(g.Workflow) && f.Workflow != g.Workflow && f.Group == "" { // the run that this run works for is in a group of its own
			continue
		}
		got.Groups = append(got.Groups, FailureGroup{
			Group: g.Group, Kind: string(g.Kind), Workflow: g.Workflow, Step: g.Step, Message: g.Text,
			First: g.First.UTC(), Last: g.Last.UTC(), Runs: g.Total, Open: g.Open,
		})
	}
	return got, nil
}
