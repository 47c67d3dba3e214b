package route

import (
	"net/http"
	"net/url"
	"reflect"

	"github.com/flowgen/flowgen/admin"
)

// hooks lists the routes of hooks for operators.
var hooks = []*Route{Hooks, Hook, ResumeHook}

// The routes of hooks. Package admin/hooks contains the public endpoint for callers with a token.
var (
	Hooks = &Route{
		Name: "listHooks", About: "A page of open hooks, of one run or of all that have not ended. Tokens are for operators.", Method: http.MethodGet, Path: "hooks", Role: admin.RoleViewer,
		Query: []Param{
			{Name: "run", About: "that has opened them; any if it is not given", Type: "string"}, {Name: "workflow", About: "of the runs, if run is not given", Type: "string"},
			{Name: "tag", About: "of the runs, if run is not given, as name=value; all of them", Type: "string", Many: true}, cursorParam, {Name: "limit", About: "how many runs are examined; 20 if it is not given, at most 100", Type: "integer"},
		},
		Out: reflect.TypeFor[admin.HookPage](), Status: http.StatusOK,
	}
	Hook = &Route{
		Name: "getHook", About: "The description of a hook, open or closed.", Method: http.MethodGet, Path: "hooks/{token}", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Hook](), Status: http.StatusOK,
	}
	ResumeHook = &Route{
		Name: "resumeHook", About: "Deliver a payload to the run that has opened a hook.", Method: http.MethodPost, Path: "hooks/{token}/resume", Role: admin.RoleOperator, Acts: "resume-hook",
		In: reflect.TypeFor[admin.Message](), Out: reflect.TypeFor[admin.Sent](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
)

// HookQuery encodes a filter of hooks as a query.
func HookQuery(f admin.HookFilter) url.Values {
	w := written{}
	w.text("run", f.Run)
	w.text("workflow", f.Workflow)
	for name, value := range f.Tags {
		w.add("tag", tagName.Replace(name)+"="+value)
	}
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadHookFilter decodes the result of HookQuery.
func ReadHookFilter(q *Query) admin.HookFilter {
	return admin.HookFilter{Run: q.Text("run"), Workflow: q.Text("workflow"), Tags: q.tags(), Cursor: q.Text("cursor"), Limit: q.Number("limit")}
}
