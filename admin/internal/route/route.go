// Package route contains the table of all routes of the HTTP API. The handler, its OpenAPI document
// and the client use this table, so that each path is defined once.
package route

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// Prefix is the prefix of the paths of all routes.
const Prefix = "/v1/"

// Route is an operation of the API.
type Route struct {
	Name   string // name of the operation, in lower camel case
	About  string
	Method string
	Path   string     // path after Prefix, with {names} as in patterns of net/http
	Role   admin.Role // minimum role
	Query  []Param
	Verbs  func() []string // returns the possible values of {action} in the path; nil if the path has none
	In     reflect.Type    // type of the JSON body; nil if there is none
	Out    reflect.Type    // type of the JSON response; nil if the response is not JSON
	Kind   string          // media type of a response that is not JSON
	Status int             // status after success
	Other  int             // status after success if nothing was created; 0 if it equals Status

	Keyed  bool // whether the route accepts an Idempotency-Key
	Waits  bool // whether the route accepts Prefer: wait=SECONDS
	Holds  bool // whether a request may stay open for long and counts as a stream
	Stream bool // whether the response consists of server-sent events of type Out

	Acts string // name in the journal, if the route changes something and has no {action} in its path

	Problems []int // statuses of problems in addition to the statuses in Always
}

// Param is a query parameter.
type Param struct {
	Name  string
	About string
	Type  string // type in JSON Schema
	Form  string // format in JSON Schema: date-time or empty
	Many  bool   // whether the parameter may be repeated
	Enum  func() []string
}

// Always lists the statuses of problems that every route may return.
var Always = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict,
	http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusNotImplemented, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// withBody lists the additional statuses of problems of routes with a JSON body.
var withBody = []int{http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}

// Started is the response to a start.
type Started struct {
	admin.Started
	Outcome *admin.Run `json:"outcome,omitempty"` // the run after a wait that was requested with Prefer, whether it has ended or not
}

// Act contains the parameters of an action on a run, except the verb.
type Act struct {
	Reason string `json:"reason,omitempty"` // recorded in the journal and, for the actions of admin.TakesReason, in the log
	Step   string `json:"step,omitempty"`   // for fork only: the ID or the key of the step to continue from
}

// The routes.
var (
	Runs = &Route{
		Name: "listRuns", About: "A page of runs, the newest first.", Method: http.MethodGet, Path: "runs", Role: admin.RoleViewer,
		Query: filterParams, Out: reflect.TypeFor[admin.RunPage](), Status: http.StatusOK,
	}
	Count = &Route{
		Name: "countRuns", About: "How many runs match.", Method: http.MethodGet, Path: "runs/count", Role: admin.RoleViewer,
		Query: filterParams, Out: reflect.TypeFor[admin.Counts](), Status: http.StatusOK,
	}
	Failures = &Route{
		Name: "listFailures", About: "A page of groups of failures, those first into which a run has come last.", Method: http.MethodGet, Path: "failures", Role: admin.RoleViewer,
		Query: failureParams, Out: reflect.TypeFor[admin.FailurePage](), Status: http.StatusOK,
	}
	Workers = &Route{
		Name: "listWorkers", About: "A page of workers, by name.", Method: http.MethodGet, Path: "workers", Role: admin.RoleViewer,
		Query: fleetParams, Out: reflect.TypeFor[admin.WorkerPage](), Status: http.StatusOK,
	}
	Queues = &Route{
		Name: "listQueues", About: "A page of the work on the queues, by queue and workflow.", Method: http.MethodGet, Path: "queues", Role: admin.RoleViewer,
		Query: fleetParams, Out: reflect.TypeFor[admin.QueuePage](), Status: http.StatusOK,
	}
	Depth = &Route{
		Name: "getDepth", About: "The amount of work on a queue, for autoscalers of workers.", Method: http.MethodGet, Path: "queues/{queue}/depth", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Depth](), Status: http.StatusOK,
	}
	Rates = &Route{
		Name: "getRates", About: "The throughput of the live workers in the last minute, and the latencies of steps.", Method: http.MethodGet, Path: "rates", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Rates](), Status: http.StatusOK,
	}
	Start = &Route{
		Name: "startRun", About: "Create a run of a workflow that is known by name only.", Method: http.MethodPost, Path: "runs", Role: admin.RoleOperator, Acts: "start",
		In: reflect.TypeFor[admin.Start](), Out: reflect.TypeFor[Started](), Status: http.StatusCreated, Other: http.StatusOK, Keyed: true, Waits: true, Problems: withBody,
	}
	Run = &Route{
		Name: "getRun", About: "A run with its input and outcome, and why it does not continue.", Method: http.MethodGet, Path: "runs/{id}", Role: admin.RoleViewer,
		Out: reflect.TypeFor[admin.Run](), Status: http.StatusOK,
	}
	Events = &Route{
		Name: "listEvents", About: "A page of the log of a run.", Method: http.MethodGet, Path: "runs/{id}/events", Role: admin.RoleViewer,
		Query: []Param{fromParam, {Name: "limit", About: "of events; 1,000 if it is not given", Type: "integer"}},
		Out:   reflect.TypeFor[admin.EventPage](), Status: http.StatusOK,
	}
	Entities = &Route{
		Name: "listEntities", About: "A page of what a run has begun: steps, waits, hooks, children, messages, questions, each as it stands.", Method: http.MethodGet,
		Path: "runs/{id}/entities", Role: admin.RoleViewer, Out: reflect.TypeFor[admin.EntityPage](), Status: http.StatusOK,
		Query: []Param{
			{Name: "kind", About: "any of them", Type: "string", Many: true, Enum: admin.EntityKinds}, {Name: "open", About: "that have not ended", Type: "boolean"},
			{Name: "from", About: "number of the event with which the first began; 1 if it is not given", Type: "integer"}, limitParam,
		},
	}
	Inbox = &Route{
		Name: "getInbox", About: "The items that a run has not received yet, the first 100: messages, requests to cancel, results of children.", Method: http.MethodGet,
		Path: "runs/{id}/inbox", Role: admin.RoleViewer, Out: reflect.TypeFor[admin.Inbox](), Status: http.StatusOK,
	}
	Graph = &Route{
		Name: "getGraph", About: "How far a run has come in a graph: its nodes, the state of each, and which needs which as far as that is known.", Method: http.MethodGet,
		Path: "runs/{id}/graph", Role: admin.RoleViewer, Out: reflect.TypeFor[admin.Graph](), Status: http.StatusOK,
		Query: []Param{{Name: "path", About: "of the graph, if the run executes several; the first one if it is not given", Type: "string"}},
	}
	Tree = &Route{
		Name: "getTree", About: "A run and those below it, up to 1,000: each one is followed by those that it has started.", Method: http.MethodGet, Path: "runs/{id}/tree",
		Role: admin.RoleViewer, Out: reflect.TypeFor[admin.Tree](), Status: http.StatusOK,
	}
	Result = &Route{
		Name: "awaitRun", About: "A run once it has ended, or as it is when the time to wait is over.", Method: http.MethodGet, Path: "runs/{id}/result", Role: admin.RoleViewer,
		Query: []Param{{Name: "wait", About: "how long to wait for its end, as 30s; at most 60s", Type: "string"}},
		Out:   reflect.TypeFor[admin.Run](), Status: http.StatusOK, Holds: true,
	}
	Action = &Route{
		Name: "actOnRun", About: "Control a run.", Method: http.MethodPost, Path: "runs/{id}/{action}", Role: admin.RoleOperator,
		Verbs: admin.Actions, In: reflect.TypeFor[Act](), Out: reflect.TypeFor[admin.Acted](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
	Send = &Route{
		Name: "sendMessage", About: "Send a message of a topic to a run.", Method: http.MethodPost, Path: "runs/{id}/topics/{name}", Role: admin.RoleOperator, Acts: "send",
		In: reflect.TypeFor[admin.Message](), Out: reflect.TypeFor[admin.Sent](), Status: http.StatusAccepted, Keyed: true, Problems: withBody,
	}
	Ask = &Route{
		Name: "askRun", About: "Send a question to a run, and wait for the answer.", Method: http.MethodPost, Path: "runs/{id}/asks/{name}", Role: admin.RoleOperator, Acts: "ask",
		In: reflect.TypeFor[admin.Message](), Out: reflect.TypeFor[admin.Answer](), Status: http.StatusOK, Keyed: true, Waits: true, Holds: true, Problems: withBody,
	}
	Value = &Route{
		Name: "getValue", About: "The newest value of a name that a run has published.", Method: http.MethodGet, Path: "runs/{id}/values/{name}", Role: admin.RolePayloads,
		Out: reflect.TypeFor[admin.Value](), Status: http.StatusOK,
	}
)

var fromParam = Param{Name: "from", About: "number of the first event; 1 if it is not given", Type: "integer"}

// All contains all routes.
var All = slices.Concat([]*Route{Runs, Count, Failures, Workers, Queues, Depth, Rates, Start, Run, Events, Entities, Inbox, Graph, Tree, Result, Action, Send, Ask, Value}, streams, hooks, fleet, deploys, views, []*Route{Journal}, bulks, checks, []*Route{Export})

// Pattern returns the pattern of the route for net/http.
func (r *Route) Pattern() string { return r.Method + " " + Prefix + r.Path }

// Names returns the names in the path, in order.
func (r *Route) Names() []string {
	var all []string
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			all = append(all, strings.TrimSuffix(name, "}"))
		}
	}
	return all
}

// URL returns the path with values for its names. It returns an *admin.InputError for a value that
// is empty or a single slash, because net/http does not accept such a segment.
func (r *Route) URL(values ...string) (string, error) {
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		value := values[0]
		values = values[1:]
		switch value {
		case "":
			return "", &admin.InputError{What: "the " + strings.Trim(part, "{}") + " in the path is empty", Fix: "give its value"}
		case "/":
			return "", &admin.InputError{What: "the " + strings.Trim(part, "{}") + " in the path is a slash", Fix: "use the store itself: no path of the API can express it"}
		case ".", "..": // HTTP clients remove these segments from a path unless they are escaped
			parts[i] = strings.ReplaceAll(value, ".", "%2E")
		default:
			parts[i] = url.PathEscape(value)
		}
	}
	return Prefix + strings.Join(parts, "/"), nil
}

// LogIn contains the token with which a browser logs in.
type LogIn struct {
	Token string `json:"token"`
}

// LoggedIn contains the principal that has logged in.
type LoggedIn struct {
	Name  string     `json:"name"`
	Role  admin.Role `json:"role"`
	Owner string     `json:"owner,omitempty"`
}

// The routes of logins. They are served before a request is authenticated.
var (
	Login = &Route{
		Name: "logIn", About: "Log a browser in with a token: the answer sets a cookie. Only on servers with logins.", Method: http.MethodPost, Path: "login",
		In: reflect.TypeFor[LogIn](), Out: reflect.TypeFor[LoggedIn](), Status: http.StatusOK, Problems: withBody,
	}
	Logout = &Route{
		Name: "logOut", About: "Take the cookie of a browser away. The token remains valid. Only on servers with logins.", Method: http.MethodPost, Path: "logout", Status: http.StatusNoContent,
	}
)

// Open lists the routes that require no role. No mux contains them.
var Open = []*Route{Login, Logout}
