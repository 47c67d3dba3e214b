package route

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// Journal is the route of the journal.
var Journal = &Route{
	Name: "readJournal", About: "A page of the requests of operators, the newest entry first. Those with an owner have their own entries.", Method: http.MethodGet, Path: "journal",
	Role: admin.RoleOperator, Query: journalParams, Out: reflect.TypeFor[admin.JournalPage](), Status: http.StatusOK,
}

// Asked returns the action and the target of a request in the form of the journal. value returns
// the value of a name in the path.
func (r *Route) Asked(value func(name string) string) (action, target string) {
	if action = r.Acts; action == "" {
		action = value("action")
	}
	if id := value("id"); id != "" {
		return action, id
	}
	if token := value("token"); token != "" {
		return action, admin.HookTarget(token)
	}
	if name := value("name"); name != "" {
		kind, _, _ := strings.Cut(r.Path, "/")
		target = strings.TrimSuffix(kind, "s") + ":" + name
	}
	return action, target
}

// journalParams are the query parameters for a JournalFilter.
var journalParams = []Param{
	{Name: "principal", About: "any of them", Type: "string", Many: true},
	{Name: "action", About: "any of them", Type: "string", Many: true},
	{Name: "target", About: "as it was named, or the run that it is about or has made", Type: "string"},
	{Name: "outcome", About: "any of them: ok, unknown, or the code of a problem", Type: "string", Many: true},
	{Name: "since", About: "then or later", Type: "string", Form: "date-time"},
	{Name: "until", About: "before", Type: "string", Form: "date-time"},
	{Name: "cursor", About: "of the page before", Type: "string"},
	{Name: "limit", About: "of a page; 100 if it is not given, at most 1,000", Type: "integer"},
	{Name: "budget", About: "how many entries may be examined; 20,000 if it is not given", Type: "integer"},
}

// JournalQuery encodes a filter of the journal as a query.
func JournalQuery(f admin.JournalFilter) url.Values {
	w := written{}
	w.add("principal", f.Principals...)
	w.add("action", f.Actions...)
	w.text("target", f.Target)
	w.add("outcome", f.Outcomes...)
	w.moment("since", f.Since)
	w.moment("until", f.Until)
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	w.number("budget", f.Budget)
	return url.Values(w)
}

// ReadJournalFilter decodes the result of JournalQuery.
func ReadJournalFilter(q *Query) admin.JournalFilter {
	return admin.JournalFilter{
		Principals: q.values["principal"], Actions: q.values["action"], Target: q.Text("target"), Outcomes: q.values["outcome"],
		Since: q.moment("since"), Until: q.moment("until"), Cursor: q.Text("cursor"), Limit: q.Number("limit"), Budget: q.Number("budget"),
	}
}
