package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Lists are ordered by the time of creation that the store recorded, not by ID. An ID is not
// suitable, because the ID of a child contains the time of its parent (see event.DerivedRunID), and
// other IDs contain times of the clocks of clients. The position of a run in the order never
// changes. Therefore a cursor stays valid after its run was removed, and the following pages
// neither skip nor repeat a run.

// NewestFirst compares runs in the order of lists: by descending time of creation and, within a
// millisecond, by descending ID. Query.Oldest reverses the order.
func NewestFirst(a, b *Record) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Run, a.Run))
}

// CursorAfter returns the cursor of a page that ends with r.
func CursorAfter(r *Record) string {
	return strconv.FormatInt(r.CreatedAt.UnixMilli(), 10) + "." + string(r.Run)
}

// After returns the last run of the previous page and the creation time of that run. The run is
// empty if the query begins with the first page.
func (q *Query) After() (created time.Time, run event.RunID, err error) {
	if q.Cursor == "" {
		return time.Time{}, "", nil
	}
	at, id, _ := strings.Cut(q.Cursor, ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		run, err = event.ParseRunID(id)
	}
	if err != nil {
		return time.Time{}, "", fmt.Errorf("read cursor: %w", err)
	}
	return time.UnixMilli(ms).UTC(), run, nil
}

// Work returns the maximum number of runs that the query may read.
func (q *Query) Work() int {
	if q.Budget > 0 {
		return q.Budget
	}
	return DefaultBudget
}

// Matches reports whether the query selects the run r. It ignores Cursor, Limit, Budget and Oldest.
func (q *Query) Matches(r *Record) bool {
	if !q.OfStatus(r.Status) || !q.OfRoute(r.Route) ||
		q.WorkflowID != "" && q.WorkflowID != r.WorkflowID ||
		q.Group != "" && q.Group != r.Group ||
		q.Failing && r.Group == "" ||
		q.Roots && r.Parent != "" ||
		q.Parent != "" && q.Parent != r.Parent ||
		q.Root != "" && q.Root != cmp.Or(r.Root, r.Run) ||
		!q.From.IsZero() && r.CreatedAt.Before(q.From) ||
		!q.To.IsZero() && !r.CreatedAt.Before(q.To) {
		return false
	}
	for key, value := range q.Tags {
		if has, ok := r.Tags[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// OfStatus reports whether the query may select runs with the status s.
func (q *Query) OfStatus(s event.Status) bool {
	return len(q.Statuses) == 0 || slices.Contains(q.Statuses, s)
}

// OfRoute reports whether the query may select runs of the route c. A query for a queue selects the
// runs of the queue that are pinned to builds as well.
func (q *Query) OfRoute(c Route) bool {
	if q.Queue != "" {
		if queue, _ := event.SplitQueue(c.Queue); queue != q.Queue {
			return false
		}
	}
	return (q.Workflow == "" || q.Workflow == c.Workflow) && !(q.Started && event.Internal(c.Workflow))
}

// Add adds n runs with the given status and route to the counts.
func (c *Counts) Add(status event.Status, route Route, n int) {
	if n == 0 {
		return
	}
	if c.Runs == nil {
		c.Runs = map[Counted]int{}
	}
	c.Runs[Counted{status, route}] += n
}

// Unpinned returns the counts with the runs that are pinned to builds in the routes of the others.
func (c Counts) Unpinned() Counts {
	plain := c
	plain.Runs = nil
	for k, n := range c.Runs {
		k.Route.Queue, _ = event.SplitQueue(k.Route.Queue)
		plain.Add(k.Status, k.Route, n)
	}
	return plain
}

// ByStatus returns the number of runs by status.
func (c Counts) ByStatus() map[event.Status]int {
	return sums(c, func(k Counted) event.Status { return k.Status })
}

// ByWorkflow returns the number of runs by workflow.
func (c Counts) ByWorkflow() map[string]int {
	return sums(c, func(k Counted) string { return k.Route.Workflow })
}

// ByQueue returns the number of runs by queue.
func (c Counts) ByQueue() map[string]int {
	return sums(c, func(k Counted) string { return k.Route.Queue })
}

// Total returns the number of all counted runs.
func (c Counts) Total() int {
	n := 0
	for _, one := range c.Runs {
		n += one
	}
	return n
}

func sums[K comparable](c Counts, of func(Counted) K) map[K]int {
	sums := make(map[K]int, len(c.Runs))
	for k, n := range c.Runs {
		sums[of(k)] += n
	}
	return sums
}

// Label is a workflow ID or a tag, under which an index lists the runs that have it.
type Label struct {
	WorkflowID string // empty if the label is a tag
	Tag, Value string
}

// String returns the kind and the value of the label.
func (l Label) String() string {
	if l.WorkflowID != "" {
		return fmt.Sprintf("workflow id %q", l.WorkflowID)
	}
	return fmt.Sprintf("tag %q=%q", l.Tag, l.Value)
}

// Labels returns the workflow ID and the tags of the run as labels.
func (r *Record) Labels() []Label { return labels(r.WorkflowID, r.Tags) }

// Labels returns the labels that a run must have to be selected by the query.
func (q *Query) Labels() []Label { return labels(q.WorkflowID, q.Tags) }

// labels returns the workflow ID as the first label, and then the tags ordered by name.
func labels(workflowID string, tags map[string]string) (all []Label) {
	if workflowID != "" {
		all = append(all, Label{WorkflowID: workflowID})
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, Label{Tag: tag, Value: tags[tag]})
	}
	return all
}
