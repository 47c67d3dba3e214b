package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Filter selects runs. The zero value selects all runs that were started by a client.
type Filter struct {
	Statuses   []string          `json:"statuses,omitempty"` // any of these statuses; see [Statuses]
	Workflow   string            `json:"workflow,omitempty"` // stored name
	Queue      string            `json:"queue,omitempty"`
	WorkflowID string            `json:"workflowId,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"` // all of these tags
	Parent     string            `json:"parent,omitempty"`
	Root       string            `json:"root,omitempty"`    // selects this run and its descendants
	Since      time.Time         `json:"since,omitzero"`    // selects runs that were created at this time or later
	Until      time.Time         `json:"until,omitzero"`    // selects runs that were created before this time
	Group      string            `json:"group,omitempty"`   // selects the runs of a failure group; see [FailureGroup]
	Failing    bool              `json:"failing,omitempty"` // selects only runs in a failure group
	// Children includes runs that were started by other runs.
	Children bool `json:"children,omitempty"`
	// System includes the runs of the runtime itself, such as the runs of schedules and of steps on
	// other queues.
	System bool   `json:"system,omitempty"`
	Oldest bool   `json:"oldest,omitempty"` // sorts the oldest run first
	Cursor string `json:"cursor,omitempty"` // cursor of the previous [RunPage]
	Limit  int    `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
	Budget int    `json:"budget,omitempty"` // maximum number of runs to read; 0 means 20,000
}

// maxLimit is the maximum of Filter.Limit and of the number of events per page.
const maxLimit = 1000

// Statuses returns the statuses of runs.
func Statuses() []string {
	var all []string
	for _, s := range []workflow.Status{
		workflow.StatusPending, workflow.StatusHeld, workflow.StatusRunning, workflow.StatusSleeping, workflow.StatusWaiting, workflow.StatusPaused,
		workflow.StatusBlocked, workflow.StatusCompleted, workflow.StatusFailed, workflow.StatusCanceled, workflow.StatusContinued,
	} {
		all = append(all, string(s))
	}
	return all
}

// Check returns an *InputError if the filter is invalid.
func (f *Filter) Check() error {
	_, err := f.filter()
	return err
}

// filter validates the filter and converts it to a filter of package workflow.
func (f *Filter) filter() (workflow.Filter, error) {
	got := workflow.Filter{
		Workflow: f.Workflow, Queue: f.Queue, WorkflowID: f.WorkflowID, Tags: f.Tags, Parent: workflow.RunID(f.Parent), Root: workflow.RunID(f.Root),
		Roots: !f.Children && f.Parent == "" && f.Root == "", From: f.Since, To: f.Until, Internal: f.System, Oldest: f.Oldest, Cursor: f.Cursor, Budget: f.Budget,
		Group: f.Group, Failing: f.Failing,
	}
	for _, s := range f.Statuses {
		if err := checkOneOf("status", s, Statuses()); err != nil {
			return got, err
		}
		got.Statuses = append(got.Statuses, workflow.Status(s))
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return got, &InputError{What: "since is not before until", Fix: "swap them"}
	}
	_, _, badCursor := (&store.Query{Cursor: f.Cursor}).After()
	if err := checkPage("runs", f.Limit, f.Budget, badCursor); err != nil {
		return got, err
	}
	if err := checkGroup(f.Group); err != nil {
		return got, err
	}
	for name, id := range map[string]string{"parent": f.Parent, "root": f.Root} {
		if id == "" {
			continue
		}
		if _, err := event.ParseRunID(id); err != nil {
			return got, &InputError{What: fmt.Sprintf("%s: %q is not the id of a run", name, id), Fix: "use the id from a list: a workflow id does not identify one run permanently"}
		}
	}
	return got, nil
}

// checkPage validates the limit and the budget of a page. badCursor is the error from parsing its
// cursor, or nil.
func checkPage(what string, limit, budget int, badCursor error) error {
	switch {
	case limit < 0 || limit > maxLimit:
		return &InputError{What: fmt.Sprintf("a page of %d %s", limit, what), Fix: fmt.Sprintf("request 1 to %d, and the next page by its cursor", maxLimit)}
	case budget < 0:
		return &InputError{What: fmt.Sprintf("a budget of %d %s", budget, what), Fix: "give how many " + what + " may be examined, or nothing"}
	case badCursor != nil:
		return &InputError{What: "the cursor is not that of a page", Fix: "use the one of the previous page, or none"}
	}
	return nil
}

// checkOneOf returns an error unless given is in all.
func checkOneOf(what, given string, all []string) error {
	if slices.Contains(all, given) {
		return nil
	}
	return &InputError{What: fmt.Sprintf("there is no %s %q", what, given), Fix: "use one of " + strings.Join(all, ", ")}
}

// SplitWords splits typed text at spaces, except at spaces between double quotes. It removes the
// quotes.
func SplitWords(s string) []string {
	var all []string
	var b strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			all = append(all, b.String())
		}
		b.Reset()
		begun = false
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case (r == ' ' || r == '\t' || r == '\n') && !quoted:
			end()
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	end()
	return all
}

// ParseFilter parses a typed filter, such as
//
//	status:failed,canceled workflow:orders.fulfil tag:region=eu since:24h failing
//
// The names before a colon are status, workflow, queue, id, tag, since, until, parent, root and
// group. A repeated name replaces the earlier value, except for status and tag, whose values
// accumulate. The single words are failing, children, system and oldest; any other word is a
// workflow ID. Times are in the forms of [ParseTime]. An empty line is the zero Filter. Errors are
// of type *InputError.
func ParseFilter(line string, now time.Time) (Filter, error) {
	var f Filter
	for _, w := range SplitWords(line) {
		name, value, ok := strings.Cut(w, ":")
		if !ok {
			switch w {
			case "failing":
				f.Failing = true
			case "children":
				f.Children = true
			case "system":
				f.System = true
			case "oldest":
				f.Oldest = true
			default: // probably the workflow ID of a run
				f.WorkflowID = w
			}
			continue
		}
		if err := readTerm(&f, name, value, now); err != nil {
			return f, err
		}
	}
	return f, nil
}

func readTerm(f *Filter, name, value string, now time.Time) (err error) {
	switch name {
	case "status":
		f.Statuses = append(f.Statuses, strings.Split(value, ",")...)
	case "workflow":
		f.Workflow = value
	case "queue":
		f.Queue = value
	case "id":
		f.WorkflowID = value
	case "parent":
		f.Parent = value
	case "root":
		f.Root = value
	case "group":
		f.Group = value
	case "since":
		f.Since, err = ParseTime(name, value, now)
	case "until":
		f.Until, err = ParseTime(name, value, now)
	case "tag":
		key, v, ok := strings.Cut(value, "=")
		if !ok {
			return &InputError{What: fmt.Sprintf("the tag %q has no =", value), Fix: "write tag:name=value"}
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[key] = v
	default:
		return &InputError{What: fmt.Sprintf("a filter has no %q", name), Fix: "use status, workflow, queue, id, tag, since, until, parent, root, group; failing, children, system, oldest; or the id of a run"}
	}
	return err
}

// ParseTime parses a typed time. A day such as 2026-11-24 means 00:00 UTC. A time may also be in
// RFC 3339, or in UTC without seconds and zone. A duration such as 24h means that duration before
// now. Errors are of type *InputError and contain name, which identifies the field.
func ParseTime(name, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &InputError{What: fmt.Sprintf("%s %q is not a time", name, s), Fix: "write 2026-11-24, 2026-11-24T08:00:00Z, or how long ago, as 24h"}
}
