package route

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// filterParams are the query parameters for a Filter.
var filterParams = []Param{
	{Name: "status", About: "any of them", Type: "string", Many: true, Enum: admin.Statuses},
	{Name: "workflow", About: "its stored name", Type: "string"},
	{Name: "queue", About: "its name", Type: "string"},
	{Name: "workflowId", About: "of the runs", Type: "string"},
	{Name: "tag", About: "as name=value; all of them", Type: "string", Many: true},
	{Name: "parent", About: "the run that has started them", Type: "string"},
	{Name: "root", About: "that run and all below it", Type: "string"},
	{Name: "group", About: "their group of failures", Type: "string"},
	{Name: "failing", About: "that are in any group of failures", Type: "boolean"},
	{Name: "since", About: "created then or later", Type: "string", Form: "date-time"},
	{Name: "until", About: "created before", Type: "string", Form: "date-time"},
	{Name: "children", About: "include runs that another run has started", Type: "boolean"},
	{Name: "system", About: "include the runtime's own runs", Type: "boolean"},
	{Name: "oldest", About: "the oldest first", Type: "boolean"},
	{Name: "cursor", About: "of the page before", Type: "string"},
	{Name: "limit", About: "of a page; 100 if it is not given, at most 1,000", Type: "integer"},
	{Name: "budget", About: "how many runs may be examined; 20,000 if it is not given", Type: "integer"},
}

// tagName escapes the character that ends the name of a tag.
var tagName = strings.NewReplacer("%", "%25", "=", "%3D")

// failureParams are the query parameters for a FailureFilter.
var failureParams = []Param{
	{Name: "group", About: "its id", Type: "string"},
	{Name: "kind", About: "any of them", Type: "string", Many: true, Enum: admin.FailureKinds},
	{Name: "workflow", About: "its stored name", Type: "string"},
	{Name: "step", About: "its stored name", Type: "string"},
	{Name: "since", About: "a run has come into it then or later", Type: "string", Form: "date-time"},
	{Name: "open", About: "there are runs in it now", Type: "boolean"},
	{Name: "cursor", About: "of the page before", Type: "string"},
	{Name: "limit", About: "of a page; 100 if it is not given, at most 1,000", Type: "integer"},
	{Name: "budget", About: "how many groups may be examined; 20,000 if it is not given", Type: "integer"},
}

// fleetParams are the query parameters for a FleetFilter.
var fleetParams = []Param{
	{Name: "queue", About: "its name", Type: "string"},
	{Name: "cursor", About: "of the page before", Type: "string"},
	{Name: "limit", About: "of a page; 100 if it is not given, at most 1,000", Type: "integer"},
}

// written is a query that omits zero values.
type written url.Values

func (w written) add(name string, values ...string) {
	for _, value := range values {
		url.Values(w).Add(name, value)
	}
}

func (w written) text(name, value string) {
	if value != "" {
		w.add(name, value)
	}
}

func (w written) flag(name string, on bool) {
	if on {
		w.add(name, "true")
	}
}

func (w written) number(name string, n int) {
	if n != 0 {
		w.add(name, strconv.Itoa(n))
	}
}

func (w written) moment(name string, t time.Time) {
	if !t.IsZero() {
		w.add(name, t.Format(time.RFC3339Nano))
	}
}

// FilterQuery encodes a filter of runs as a query.
func FilterQuery(f admin.Filter) url.Values {
	w := written{}
	w.add("status", f.Statuses...)
	w.text("workflow", f.Workflow)
	w.text("queue", f.Queue)
	w.text("workflowId", f.WorkflowID)
	for name, value := range f.Tags {
		w.add("tag", tagName.Replace(name)+"="+value)
	}
	w.text("parent", f.Parent)
	w.text("root", f.Root)
	w.text("group", f.Group)
	w.flag("failing", f.Failing)
	w.moment("since", f.Since)
	w.moment("until", f.Until)
	w.flag("children", f.Children)
	w.flag("system", f.System)
	w.flag("oldest", f.Oldest)
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	w.number("budget", f.Budget)
	return url.Values(w)
}

// FailureQuery encodes a filter of failure groups as a query.
func FailureQuery(f admin.FailureFilter) url.Values {
	w := written{}
	w.text("group", f.Group)
	w.add("kind", f.Kinds...)
	w.text("workflow", f.Workflow)
	w.text("step", f.Step)
	w.moment("since", f.Since)
	w.flag("open", f.Open)
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	w.number("budget", f.Budget)
	return url.Values(w)
}

// EntityQuery encodes a filter of entities as a query.
func EntityQuery(f admin.EntityFilter) url.Values {
	w := written{}
	w.add("kind", f.Kinds...)
	w.flag("open", f.Open)
	w.seq("from", f.From)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// FleetQuery encodes a filter of workers or queues as a query.
func FleetQuery(f admin.FleetFilter) url.Values {
	w := written{}
	w.text("queue", f.Queue)
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadEntityFilter decodes the result of EntityQuery.
func ReadEntityFilter(q *Query) admin.EntityFilter {
	return admin.EntityFilter{Kinds: q.values["kind"], Open: q.flag("open"), From: q.Seq("from"), Limit: q.Number("limit")}
}

// ReadFleetFilter decodes the result of FleetQuery.
func ReadFleetFilter(q *Query) admin.FleetFilter {
	return admin.FleetFilter{Queue: q.Text("queue"), Cursor: q.Text("cursor"), Limit: q.Number("limit")}
}

// ReadFailureFilter decodes the result of FailureQuery.
func ReadFailureFilter(q *Query) admin.FailureFilter {
	return admin.FailureFilter{
		Group: q.Text("group"), Kinds: q.values["kind"], Workflow: q.Text("workflow"), Step: q.Text("step"), Since: q.moment("since"),
		Open: q.flag("open"), Cursor: q.Text("cursor"), Limit: q.Number("limit"), Budget: q.Number("budget"),
	}
}

// ReadFilter decodes the result of FilterQuery.
func ReadFilter(q *Query) admin.Filter {
	f := admin.Filter{
		Statuses: q.values["status"], Workflow: q.Text("workflow"), Queue: q.Text("queue"), WorkflowID: q.Text("workflowId"),
		Parent: q.Text("parent"), Root: q.Text("root"), Group: q.Text("group"), Failing: q.flag("failing"), Since: q.moment("since"), Until: q.moment("until"),
		Children: q.flag("children"), System: q.flag("system"), Oldest: q.flag("oldest"),
		Cursor: q.Text("cursor"), Limit: q.Number("limit"), Budget: q.Number("budget"),
	}
	f.Tags = q.tags()
	return f
}

// tags decodes the parameters that select runs by tags.
func (q *Query) tags() (all map[string]string) {
	for _, tag := range q.values["tag"] {
		name, value, ok := strings.Cut(tag, "=")
		if !ok {
			q.fail(fmt.Sprintf("the tag %q has no =", tag), "write name=value")
		}
		name, err := url.PathUnescape(name)
		if err != nil {
			q.fail(fmt.Sprintf("the tag %q: %v", tag, err), "write % in its name as %25, and = as %3D")
		}
		if _, twice := all[name]; twice {
			q.fail(fmt.Sprintf("the tag %q is given twice", name), "give it once: a run has one value of it")
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	return all
}

// Query contains the parameters of a request. Err is the first error that occurred when they were
// decoded.
type Query struct {
	values url.Values
	Err    error
}

// ReadQuery parses a query. Unknown and repeated parameters are errors.
func (r *Route) ReadQuery(raw string) *Query {
	values, err := url.ParseQuery(raw)
	q := &Query{values: values}
	if err != nil {
		q.fail("the query cannot be read: "+err.Error(), "escape what is special in URLs")
		return q
	}
	for name, given := range values {
		i := slices.IndexFunc(r.Query, func(p Param) bool { return p.Name == name })
		switch {
		case i < 0:
			q.fail(fmt.Sprintf("there is no parameter %q", name), "use those of "+Prefix+"openapi.json")
		case len(given) > 1 && !r.Query[i].Many:
			q.fail("the parameter "+name+" is given more than once", "give it once")
		}
	}
	return q
}

func (q *Query) fail(what, fix string) {
	if q.Err == nil {
		q.Err = &admin.InputError{What: what, Fix: fix}
	}
}

// Text returns a parameter. It returns the empty string if the parameter is absent.
func (q *Query) Text(name string) string { return q.values.Get(name) }

// Number returns a numeric parameter. It returns 0 if the parameter is absent.
func (q *Query) Number(name string) int {
	text := q.Text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		q.fail(fmt.Sprintf("%s is %q", name, text), "give a number")
	}
	return n
}

// Seq returns a parameter that is the number of an event. It returns 0 if the parameter is absent.
func (q *Query) Seq(name string) uint64 {
	text := q.Text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		q.fail(fmt.Sprintf("%s is %q", name, text), "give the number of an event")
	}
	return n
}

// Duration returns a parameter that is a duration. It returns 0 if the parameter is absent. The
// parameter most is the maximum; a longer duration is an error.
func (q *Query) Duration(name string, most time.Duration) time.Duration {
	text := q.Text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		q.fail(fmt.Sprintf("%s is %q", name, text), fmt.Sprintf("give a duration as 30s, of at most %v, and ask again", most))
		return 0
	}
	return d
}

func (q *Query) flag(name string) bool {
	text := q.Text(name)
	if text != "" && text != "true" && text != "false" {
		q.fail(fmt.Sprintf("%s is %q", name, text), "give true or false")
	}
	return text == "true"
}

func (q *Query) moment(name string) time.Time {
	text := q.Text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.fail(fmt.Sprintf("%s is %q", name, text), "give a time by RFC 3339, as 2026-01-02T15:04:05Z")
	}
	return t
}
