package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// FailureFilter selects groups of failures. The zero value selects all.
type FailureFilter struct {
	Group    string    `json:"group,omitempty"`
	Kinds    []string  `json:"kinds,omitempty"` // any of them: see [FailureKinds]
	Workflow string    `json:"workflow,omitempty"`
	Step     string    `json:"step,omitempty"`
	Since    time.Time `json:"since,omitzero"`   // a run has come into it then or later
	Open     bool      `json:"open,omitempty"`   // there are runs in it now
	Cursor   string    `json:"cursor,omitempty"` // of a [FailurePage], for the next one
	Limit    int       `json:"limit,omitempty"`  // of a page; 0: 100, at most 1,000
	Budget   int       `json:"budget,omitempty"` // how many groups may be looked at; 0: 20,000
}

// FailureGroup describes a group of runs to which the same has happened. A run is in one group at most:
// [Run].Group names it.
type FailureGroup struct {
	Group    string    `json:"group"` // a stable id, as f1-9c0e11a2b3d4
	Kind     string    `json:"kind"`  // one of [FailureKinds]
	Workflow string    `json:"workflow"`
	Step     string    `json:"step,omitempty"`
	Message  string    `json:"message"` // with § for ids, numbers, times, quoted text and addresses
	First    time.Time `json:"first"`   // when a run has come into it
	Last     time.Time `json:"last"`
	Runs     int       `json:"runs"` // how often a run has come into it
	Open     int       `json:"open"` // how many are in it now
}

// FailurePage is a part of a list of groups, those first into which a run has come last.
type FailurePage struct {
	Groups []FailureGroup `json:"groups"`
	Cursor string         `json:"cursor,omitempty"` // of the next page; empty: there is none
	// Partial says that the budget was less than there are groups: numbers may be too low, and old
	// groups may be missing.
	Partial bool `json:"partial"`
}

// FailureKinds returns what kinds of failures there are: runs that have failed, that have a step
// which is being retried, and that are blocked.
func FailureKinds() []string {
	var all []string
	for _, k := range store.TroubleKinds() {
		all = append(all, string(k))
	}
	return all
}

func (f *FailureFilter) filter() (workflow.TroubleFilter, error) {
	got := workflow.TroubleFilter{
		Workflow: f.Workflow, Step: f.Step, Since: f.Since, Open: f.Open, Cursor: f.Cursor, Limit: f.Limit, Budget: f.Budget,
	}
	if f.Group != "" {
		got.Groups = []string{f.Group}
	}
	for _, k := range f.Kinds {
		if err := checkOneOf("kind of failures", k, FailureKinds()); err != nil {
			return got, err
		}
		got.Kinds = append(got.Kinds, workflow.TroubleKind(k))
	}
	_, _, badCursor := got.After()
	if err := checkPage("groups", f.Limit, f.Budget, badCursor); err != nil {
		return got, err
	}
	return got, checkGroup(f.Group)
}

// checkGroup returns an error if that is no id of a group; empty: it was not asked for one.
func checkGroup(group string) error {
	if group == "" || store.CheckGroup(group) == nil {
		return nil
	}
	return &InputError{What: fmt.Sprintf("%q is no id of a group", group), Fix: "take it from a list of failures, as f1-9c0e11a2b3d4"}
}

// Failures returns a page of groups of runs to which the same has happened: they have failed, a step of them is being
// retried, or they are blocked.
// The numbers and messages of groups are those of the runs of all.
func (s *Service) Failures(ctx context.Context, f FailureFilter) (FailurePage, error) {
	if err := s.all(RoleViewer, "see failures", "list runs with the filter troubled"); err != nil {
		return FailurePage{}, err
	}
	page, err := s.failures(ctx, f)
	veil(s.who, &page)
	return page, err
}

// failures is [Service.Failures] without the limits of the principal.
func (s *Service) failures(ctx context.Context, f FailureFilter) (FailurePage, error) {
	asked, err := f.filter()
	if err != nil {
		return FailurePage{}, err
	}
	page, err := s.client.Troubles(ctx, asked)
	if err != nil {
		return FailurePage{}, err
	}
	got := FailurePage{Groups: []FailureGroup{}, Cursor: page.Cursor, Partial: page.Partial}
	for _, g := range page.Groups {
		if event.Helper(g.Workflow) && f.Workflow != g.Workflow && f.Group == "" { // the run that it works for shows it
			continue
		}
		got.Groups = append(got.Groups, FailureGroup{
			Group: g.Group, Kind: string(g.Kind), Workflow: g.Workflow, Step: g.Step, Message: g.Text,
			First: g.First.UTC(), Last: g.Last.UTC(), Runs: g.Total, Open: g.Open,
		})
	}
	return got, nil
}
