package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// The routes of shared views.
var (
	Views = &Route{
		Name: "listViews", About: "The shared views of the store, by name: at most 100.", Method: http.MethodGet, Path: "views", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.ViewList](), Status: http.StatusOK,
	}
	SaveView = &Route{
		Name: "saveView", About: "Save a filter of runs under a name, or replace the filter of that name. Repeating the request has no further effect.", Method: http.MethodPost, Path: "views/{name}", Acts: "save-view",
		Role: admin.RoleOperator, In: reflect.TypeFor[admin.NewView](), Out: reflect.TypeFor[admin.ViewActed](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
	DeleteView = &Route{
		Name: "deleteView", About: "Remove a view.", Method: http.MethodPost, Path: "views/{name}/delete", Acts: "delete-view", Role: admin.RoleOperator,
		In: reflect.TypeFor[admin.Because](), Out: reflect.TypeFor[admin.ViewActed](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
)

var views = []*Route{Views, SaveView, DeleteView}

// The routes for checks of the whole store.
var (
	Examine = &Route{
		Name: "examineStore", About: "Configuration of the servers of the store, and its defects.", Method: http.MethodGet, Path: "doctor", Role: admin.RoleOperator,
		Out: reflect.TypeFor[admin.Exam](), Status: http.StatusOK,
	}
	Check = &Route{
		Name: "checkStore", About: "Damage of the store, and its planned repairs. The request reads everything.", Method: http.MethodGet, Path: "fsck", Role: admin.RoleOperator,
		Out: reflect.TypeFor[admin.Checked](), Status: http.StatusOK, Holds: true,
	}
	Repair = &Route{
		Name: "repairStore", About: "Repair the damage of the store from the logs. The request reads everything.", Method: http.MethodPost, Path: "repair", Role: admin.RoleAdmin, Acts: "repair",
		In: reflect.TypeFor[admin.Because](), Out: reflect.TypeFor[admin.Checked](), Status: http.StatusOK, Holds: true, Problems: withBody,
	}
)

var checks = []*Route{Examine, Check, Repair}

// Export is the route that returns runs in the form that an import reads. It changes nothing. Its
// requests have a body, because the names of many runs do not fit into a URL.
var Export = &Route{
	Name: "exportRuns", About: "Runs as lines of JSON, which flowctl import reads: records, logs and streams, as they are stored. An answer without its last line was cut off.",
	Method: http.MethodPost, Path: "export", Acts: "export", Role: admin.RoleAdmin, In: reflect.TypeFor[admin.ExportRequest](), Kind: "application/jsonl", Status: http.StatusOK, Holds: true,
	Problems: withBody,
}
