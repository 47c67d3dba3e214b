package route

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/flowgen/flowgen/admin"
)

// Export is the route of what import reads.
var Export = &Route{
	Name: "exportRuns", About: "Runs as lines of JSON, which flowctl import reads: records, logs and streams, as they are stored. An answer without its last line was cut off.",
	Method: http.MethodGet, Path: "export", Role: admin.RoleAdmin, Kind: "application/jsonl", Status: http.StatusOK, Holds: true,
	Query: append([]Param{
		{Name: "run", About: "its name; instead of a filter", Type: "string", Many: true},
		{Name: "all", About: "all runs, without a filter", Type: "boolean"},
		{Name: "tree", About: "also the runs that each has started, and those below", Type: "boolean"},
	}, slices.DeleteFunc(slices.Clone(filterParams), func(p Param) bool {
		return slices.Contains([]string{"oldest", "cursor", "limit", "budget"}, p.Name)
	})...),
}

// ExportQuery writes a request.
func ExportQuery(r admin.ExportRequest) url.Values {
	w := written(FilterQuery(r.Filter))
	w.add("run", r.Runs...)
	w.flag("all", r.All)
	w.flag("tree", r.Tree)
	return url.Values(w)
}

// ReadExport reads what ExportQuery writes.
func ReadExport(q *Query) admin.ExportRequest {
	return admin.ExportRequest{Runs: q.values["run"], Filter: ReadFilter(q), All: q.flag("all"), Tree: q.flag("tree")}
}
