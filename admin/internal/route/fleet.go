package route

import (
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// ScheduleAct contains the parameters of an action on a schedule, except the verb. It is flat, so
// that unknown names are refused at every level.
type ScheduleAct struct {
	Reason    string    `json:"reason,omitempty"`    // recorded in the journal; for pause, also the note of the schedule
	When      string    `json:"when,omitempty"`      // for update only
	Overlap   string    `json:"overlap,omitempty"`   // for update and backfill
	CatchUpMs int64     `json:"catchUpMs,omitempty"` // for update only
	JitterMs  int64     `json:"jitterMs,omitempty"`  // for update only
	From      time.Time `json:"from,omitzero"`       // for backfill only
	To        time.Time `json:"to,omitzero"`         // for backfill only
}

// BodyOf returns the body of a request for an action.
func BodyOf(a *admin.ScheduleAction) ScheduleAct {
	b := ScheduleAct{Reason: a.Reason}
	if t := a.Timing; t != nil {
		b.When, b.Overlap, b.CatchUpMs, b.JitterMs = t.When, t.Overlap, t.CatchUpMs, t.JitterMs
	}
	if f := a.Fill; f != nil {
		b.From, b.To, b.Overlap = f.From, f.To, f.Overlap
	}
	return b
}

// Action returns the action that the body describes. It keeps parameters that the verb does not
// have, so that the service refuses them.
func (b *ScheduleAct) Action(verb, key string) admin.ScheduleAction {
	a := admin.ScheduleAction{Verb: verb, Reason: b.Reason, Key: key}
	timing := admin.Timing{When: b.When, Overlap: b.Overlap, CatchUpMs: b.CatchUpMs, JitterMs: b.JitterMs}
	fill := admin.Backfill{From: b.From, To: b.To, Overlap: b.Overlap}
	switch verb {
	case "update":
		a.Timing, fill.Overlap = &timing, ""
	case "backfill":
		a.Fill, timing.Overlap = &fill, ""
	}
	if timing != (admin.Timing{}) {
		a.Timing = &timing
	}
	if fill != (admin.Backfill{}) {
		a.Fill = &fill
	}
	return a
}

// PoolAct contains the parameters of an action on a limit, except the verb.
type PoolAct struct {
	Key     string `json:"key,omitempty"` // empty for the limit as a whole
	AtOnce  int    `json:"atOnce,omitempty"`
	Rate    int    `json:"rate,omitempty"`
	PerMs   int64  `json:"perMs,omitempty"`
	Burst   int    `json:"burst,omitempty"`
	Waiting int    `json:"waiting,omitempty"`
	Refuse  bool   `json:"refuse,omitempty"`
	Reason  string `json:"reason,omitempty"` // recorded in the journal
}

// PoolBodyOf returns the body of a request for an action.
func PoolBodyOf(a *admin.PoolAction) PoolAct {
	b := PoolAct{Key: a.Key, Reason: a.Reason}
	if c := a.Config; c != nil {
		b.AtOnce, b.Rate, b.PerMs, b.Burst, b.Waiting, b.Refuse = c.AtOnce, c.Rate, c.PerMs, c.Burst, c.Waiting, c.Refuse
	}
	return b
}

// Action returns the action that the body describes. It keeps parameters that the verb does not
// have, so that the service refuses them.
func (b *PoolAct) Action(verb string) admin.PoolAction {
	c := admin.PoolConfig{AtOnce: b.AtOnce, Rate: b.Rate, PerMs: b.PerMs, Burst: b.Burst, Waiting: b.Waiting, Refuse: b.Refuse}
	a := admin.PoolAction{Verb: verb, Key: b.Key, Reason: b.Reason}
	if verb == "set" || c != (admin.PoolConfig{}) {
		a.Config = &c
	}
	return a
}

// The routes of schedules and limits.
var (
	Schedules = &Route{
		Name: "listSchedules", About: "A page of schedules.", Method: http.MethodGet, Path: "schedules", Role: admin.RoleViewer,
		Query: []Param{cursorParam, limitParam}, Out: reflect.TypeFor[admin.SchedulePage](), Status: http.StatusOK,
	}
	Schedule = &Route{
		Name: "getSchedule", About: "A schedule with its next ten ticks.", Method: http.MethodGet, Path: "schedules/{name}", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Schedule](), Status: http.StatusOK,
	}
	PutSchedule = &Route{
		Name: "putSchedule", About: "Make a schedule, or replace what the one of its name does. Repeating the request has no further effect.", Method: http.MethodPost, Path: "schedules", Acts: "put",
		Role: admin.RoleOperator, In: reflect.TypeFor[admin.NewSchedule](), Out: reflect.TypeFor[admin.ScheduleActed](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
	ActOnSchedule = &Route{
		Name: "actOnSchedule", About: "Control a schedule. To delete one waits until a worker has ended it, for up to 30 seconds.", Method: http.MethodPost,
		Path: "schedules/{name}/{action}", Role: admin.RoleOperator, Verbs: admin.ScheduleActions, Holds: true,
		In: reflect.TypeFor[ScheduleAct](), Out: reflect.TypeFor[admin.ScheduleActed](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
	Catalog = &Route{
		Name: "listCatalog", About: "The workflows that workers have described when they started: queue, and schemas of input and result.", Method: http.MethodGet, Path: "catalog",
		Role: admin.RoleViewer, Out: reflect.TypeFor[admin.CatalogPage](), Status: http.StatusOK,
		Query: []Param{{Name: "workflow", About: "its stored name", Type: "string"}, {Name: "after", About: "those whose names come after this one", Type: "string"}, limitParam},
	}
	Pools = &Route{
		Name: "listPools", About: "The parts of limits, by waiting weight, then by weight in use.", Method: http.MethodGet, Path: "pools", Role: admin.RoleViewer,
		Query: []Param{{Name: "name", About: "of the limit", Type: "string"}, limitParam, {Name: "holders", About: "with runs that have permits", Type: "boolean"}}, Out: reflect.TypeFor[admin.PoolPage](), Status: http.StatusOK,
	}
	ActOnPool = &Route{
		Name: "actOnPool", About: "Configure a limit at run time, or a part of it. Repeating the request has no further effect.", Method: http.MethodPost, Path: "pools/{name}/{action}", Role: admin.RoleOperator,
		Verbs: admin.PoolActions, In: reflect.TypeFor[PoolAct](), Out: reflect.TypeFor[admin.PoolActed](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
)

var fleet = []*Route{Schedules, Schedule, PutSchedule, ActOnSchedule, Catalog, Pools, ActOnPool}

var (
	cursorParam = Param{Name: "cursor", About: "of the page before", Type: "string"}
	limitParam  = Param{Name: "limit", About: "of a page; 100 if it is not given, at most 1,000", Type: "integer"}
)

// MaxDelete is the maximum time for which a request to delete a schedule waits.
const MaxDelete = 30 * time.Second

// ScheduleQuery encodes a filter of schedules as a query.
func ScheduleQuery(f admin.ScheduleFilter) url.Values {
	w := written{}
	w.text("cursor", f.Cursor)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadScheduleFilter decodes the result of ScheduleQuery.
func ReadScheduleFilter(q *Query) admin.ScheduleFilter {
	return admin.ScheduleFilter{Cursor: q.Text("cursor"), Limit: q.Number("limit")}
}

// CatalogQuery encodes a filter of workflows as a query.
func CatalogQuery(f admin.CatalogFilter) url.Values {
	w := written{}
	w.text("workflow", f.Workflow)
	w.text("after", f.After)
	w.number("limit", f.Limit)
	return url.Values(w)
}

// ReadCatalogFilter decodes the result of CatalogQuery.
func ReadCatalogFilter(q *Query) admin.CatalogFilter {
	return admin.CatalogFilter{Workflow: q.Text("workflow"), After: q.Text("after"), Limit: q.Number("limit")}
}

// PoolQuery encodes a filter of limits as a query.
func PoolQuery(f admin.PoolFilter) url.Values {
	w := written{}
	w.text("name", f.Name)
	w.number("limit", f.Limit)
	w.flag("holders", f.Holders)
	return url.Values(w)
}

// ReadPoolFilter decodes the result of PoolQuery.
func ReadPoolFilter(q *Query) admin.PoolFilter {
	return admin.PoolFilter{Name: q.Text("name"), Limit: q.Number("limit"), Holders: q.flag("holders")}
}
