package route

import (
	"net/http"
	"net/url"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// The routes of bulk actions.
var (
	Preview = &Route{
		Name: "previewBulk", About: "Preview a bulk action.", Method: http.MethodPost, Path: "bulk/preview", Acts: "preview", Role: admin.RoleOperator,
		In: reflect.TypeFor[admin.BulkRequest](), Out: reflect.TypeFor[admin.BulkPreview](), Status: http.StatusOK, Problems: withBody,
	}
	StartBulk = &Route{
		Name: "startBulk", About: "Perform the action of a preview on many runs.", Method: http.MethodPost, Path: "bulk", Acts: "bulk", Role: admin.RoleOperator,
		In: reflect.TypeFor[admin.NewBulk](), Out: reflect.TypeFor[admin.Bulk](), Status: http.StatusAccepted, Keyed: true, Problems: append([]int{http.StatusPreconditionFailed}, withBody...),
	}
	Bulks = &Route{
		Name: "listBulks", About: "A page of bulk actions, the newest first.", Method: http.MethodGet, Path: "bulk", Role: admin.RoleViewer,
		Query: bulkParams, Out: reflect.TypeFor[admin.BulkPage](), Status: http.StatusOK,
	}
	Bulk = &Route{
		Name: "getBulk", About: "The current state of a bulk action.", Method: http.MethodGet, Path: "bulk/{id}", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Bulk](), Status: http.StatusOK,
	}
	StopBulk = &Route{
		Name: "stopBulk", About: "Stop a bulk action.", Method: http.MethodPost, Path: "bulk/{id}/stop", Acts: "stop", Role: admin.RoleOperator,
		In: reflect.TypeFor[admin.Because](), Out: reflect.TypeFor[admin.Bulk](), Status: http.StatusAccepted, Problems: withBody,
	}
)

var bulks = []*Route{Preview, StartBulk, Bulks, Bulk, StopBulk}

// bulkParams are the query parameters for a BulkFilter.
var bulkParams = []Param{
	{Name: "cursor", About: "of the page before", Type: "string"},
	{Name: "limit", About: "of a page; 20 if it is not given, at most 1,000", Type: "integer"},
}

// BulkQuery encodes a filter of bulk actions as a query.
func BulkQuery(f admin.BulkFilter) url.Values {
	w := written{}
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadBulkFilter decodes the result of BulkQuery.
func ReadBulkFilter(q *Query) admin.BulkFilter {
	return admin.BulkFilter{Cursor: q.Text("cursor"), Limit: q.Number("limit")}
}
