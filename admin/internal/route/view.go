package route

import (
	"net/http"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// The routes of shared views.
var (
	Views = &Route{
		Name: "listViews", About: "The views that all who look at the store share, by name: at most 100.", Method: http.MethodGet, Path: "views", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.ViewList](), Status: http.StatusOK,
	}
	SaveView = &Route{
		Name: "saveView", About: "Keep a filter of runs under a name, or replace what that name stands for. Asking again does nothing more.", Method: http.MethodPost, Path: "views/{name}", Acts: "save-view",
		Role: admin.RoleOperator, In: reflect.TypeFor[admin.NewView](), Out: reflect.TypeFor[admin.ViewActed](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
	DeleteView = &Route{
		Name: "deleteView", About: "Remove a view.", Method: http.MethodPost, Path: "views/{name}/delete", Acts: "delete-view", Role: admin.RoleOperator,
		In: reflect.TypeFor[admin.Because](), Out: reflect.TypeFor[admin.ViewActed](), Status: http.StatusOK, Keyed: true, Problems: withBody,
	}
)

var views = []*Route{Views, SaveView, DeleteView}
