package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// request is an authenticated request to a route.
type request struct {
	h       *Handler
	route   *route.Route
	w       http.ResponseWriter
	r       *http.Request
	service *admin.Service // service with the rights of the principal
	query   *route.Query
	release func() // releases the share of the stream limit that the request holds; may be nil
}

func (q *request) end() {
	if q.release != nil {
		q.release()
	}
}

func (q *request) ctx() context.Context    { return q.r.Context() }
func (q *request) path(name string) string { return q.r.PathValue(name) }

// holds reports whether the request may stay open for long.
func (q *request) holds() bool { return q.route.Holds || q.route.Waits && q.prefers() > 0 }

// maxWait is the maximum time that a request waits. It is short, so that proxies do not end the
// request.
const maxWait = time.Minute

// prefers returns the time that the client wants to wait, from the header Prefer: wait=SECONDS (RFC
// 7240). It returns 0 if the header does not contain this preference. It ignores other preferences,
// as the RFC requires.
func (q *request) prefers() time.Duration {
	for _, line := range q.r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(one), "=")
			seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if strings.EqualFold(name, "wait") && err == nil {
				return min(time.Duration(seconds)*time.Second, maxWait)
			}
		}
	}
	return 0
}

// applied adds the header that confirms the preference to wait.
func (q *request) applied(wait time.Duration) {
	q.w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", wait/time.Second))
}

// maxKey is the maximum length of an Idempotency-Key in bytes.
const maxKey = 255

// key returns the idempotency key of the request. It returns the empty string if there is none.
func (q *request) key() (string, error) {
	given := q.r.Header.Values("Idempotency-Key")
	switch {
	case len(given) == 0:
		return "", nil
	case len(given) > 1 || given[0] == "" || len(given[0]) > maxKey:
		return "", &admin.InputError{What: "the header Idempotency-Key is empty, too long, or given more than once", Fix: fmt.Sprintf("give it once, with up to %d bytes", maxKey)}
	}
	return given[0], nil
}

// input reads the body and the idempotency key of a request.
func (q *request) input(into any) (key string, err error) {
	if key, err = q.key(); err != nil {
		return "", err
	}
	return key, q.read(into)
}

// reply responds with v in JSON, or returns err if it is not nil.
func (q *request) reply(status int, v any, err error) error {
	if err == nil {
		answer(q.w, "application/json", status, encode(v))
	}
	return err
}

// operations contains the implementations of the routes.
var operations = map[*route.Route]func(*request) error{
	route.Runs:     list(route.ReadFilter, (*admin.Service).Runs),
	route.Count:    list(route.ReadFilter, (*admin.Service).Count),
	route.Failures: list(route.ReadFailureFilter, (*admin.Service).Failures),
	route.Workers:  list(route.ReadFleetFilter, (*admin.Service).Workers),
	route.Queues:   list(route.ReadFleetFilter, (*admin.Service).Queues),
	route.Depth: func(q *request) error {
		depth, err := q.service.Depth(q.ctx(), q.path("queue"))
		return q.reply(http.StatusOK, depth, err)
	},
	route.Rates: func(q *request) error {
		rates, err := q.service.Rates(q.ctx())
		return q.reply(http.StatusOK, rates, err)
	},
	route.Start: start,
	route.Run: func(q *request) error {
		run, err := q.service.Run(q.ctx(), q.path("id"))
		return q.reply(http.StatusOK, run, err)
	},
	route.Events: func(q *request) error {
		from, limit := q.query.Seq("from"), q.query.Number("limit")
		if q.query.Err != nil {
			return q.query.Err
		}
		page, err := q.service.Events(q.ctx(), q.path("id"), from, limit)
		return q.reply(http.StatusOK, page, err)
	},
	route.Entities: func(q *request) error {
		f := route.ReadEntityFilter(q.query)
		if q.query.Err != nil {
			return q.query.Err
		}
		page, err := q.service.Entities(q.ctx(), q.path("id"), f)
		return q.reply(http.StatusOK, page, err)
	},
	route.Inbox: func(q *request) error {
		in, err := q.service.Inbox(q.ctx(), q.path("id"))
		return q.reply(http.StatusOK, in, err)
	},
	route.Graph: func(q *request) error {
		g, err := q.service.Graph(q.ctx(), q.path("id"), q.query.Text("path"))
		return q.reply(http.StatusOK, g, err)
	},
	route.Tree: func(q *request) error {
		tree, err := q.service.Tree(q.ctx(), q.path("id"))
		return q.reply(http.StatusOK, tree, err)
	},
	route.Result: func(q *request) error {
		wait := q.query.Duration("wait", maxWait)
		if q.query.Err != nil {
			return q.query.Err
		}
		run, err := q.service.Wait(q.ctx(), q.path("id"), wait)
		return q.reply(http.StatusOK, run, err)
	},
	route.Follow: follow,
	route.Streams: func(q *request) error {
		f := route.ReadStreamFilter(q.query)
		if q.query.Err != nil {
			return q.query.Err
		}
		list, err := q.service.Streams(q.ctx(), q.path("id"), f)
		return q.reply(http.StatusOK, list, err)
	},
	route.Stream: func(q *request) error {
		from, limit := q.query.Seq("from"), q.query.Number("limit")
		if q.query.Err != nil {
			return q.query.Err
		}
		page, err := q.service.Stream(q.ctx(), q.path("id"), q.path("name"), from, limit)
		return q.reply(http.StatusOK, page, err)
	},
	route.FollowStream: followStream,
	route.Live:         live,
	route.Action: func(q *request) error {
		var in route.Act
		key, err := q.input(&in)
		if err != nil {
			return err
		}
		done, err := q.service.Act(q.ctx(), q.path("id"), admin.Action{Verb: q.path("action"), Reason: in.Reason, Step: in.Step, Key: key})
		return q.reply(http.StatusAccepted, done, err)
	},
	route.Send: func(q *request) error {
		var in admin.Message
		var err error
		if in.Key, err = q.input(&in); err != nil {
			return err
		}
		sent, err := q.service.Send(q.ctx(), q.path("id"), q.path("name"), in)
		return q.reply(http.StatusAccepted, sent, err)
	},
	route.Hooks: list(route.ReadHookFilter, (*admin.Service).Hooks),
	route.Hook: func(q *request) error {
		got, err := q.service.Hook(q.ctx(), q.path("token"))
		return q.reply(http.StatusOK, got, err)
	},
	route.ResumeHook: func(q *request) error {
		var in admin.Message
		var err error
		if in.Key, err = q.input(&in); err != nil {
			return err
		}
		sent, err := q.service.ResumeHook(q.ctx(), q.path("token"), in)
		return q.reply(http.StatusAccepted, sent, err)
	},
	route.Ask:           ask,
	route.Schedules:     list(route.ReadScheduleFilter, (*admin.Service).Schedules),
	route.Schedule:      schedule,
	route.PutSchedule:   putSchedule,
	route.ActOnSchedule: actOnSchedule,
	route.Catalog:       list(route.ReadCatalogFilter, (*admin.Service).Catalog),
	route.Pools:         list(route.ReadPoolFilter, (*admin.Service).Pools),
	route.ActOnPool:     actOnPool,
	route.Deploys:       whole((*admin.Service).Deploys),
	route.Drained: func(q *request) error {
		got, err := q.service.Drained(q.ctx(), q.path("name"))
		return q.reply(http.StatusOK, got, err)
	},
	route.Ramp: func(q *request) error {
		var in admin.Ramp
		if _, err := q.input(&in); err != nil {
			return err
		}
		if in.Percent == nil {
			return &admin.InputError{What: "percent is missing", Fix: `set the percentage of each build, such as {"percent":{"v2":5}}, or {"percent":{}} to remove the distribution`}
		}
		got, err := q.service.Ramp(q.ctx(), in)
		return q.reply(http.StatusOK, got, err)
	},
	route.ActOnDeploy: func(q *request) error {
		var in route.DeployAct
		if _, err := q.input(&in); err != nil {
			return err
		}
		got, err := q.service.ActOnDeploy(q.ctx(), q.path("name"), admin.DeployAction{Verb: q.path("action"), To: in.To, Reason: in.Reason})
		return q.reply(http.StatusOK, got, err)
	},
	route.Views: whole((*admin.Service).Views),
	route.SaveView: func(q *request) error {
		var in admin.NewView
		if _, err := q.input(&in); err != nil {
			return err
		}
		done, err := q.service.SaveView(q.ctx(), q.path("name"), in)
		return q.reply(http.StatusOK, done, err)
	},
	route.DeleteView: func(q *request) error {
		var in admin.Because
		if _, err := q.input(&in); err != nil {
			return err
		}
		done, err := q.service.DeleteView(q.ctx(), q.path("name"), in)
		return q.reply(http.StatusOK, done, err)
	},
	route.Journal: list(route.ReadJournalFilter, (*admin.Service).Journal),
	route.Preview: asked(http.StatusOK, func(q *request, in admin.BulkRequest) (admin.BulkPreview, error) {
		return q.service.Preview(q.ctx(), in)
	}),
	route.StartBulk: func(q *request) error {
		var in admin.NewBulk
		var err error
		if in.Key, err = q.input(&in); err != nil {
			return err
		}
		got, err := q.service.StartBulk(q.ctx(), in)
		return q.reply(http.StatusAccepted, got, err)
	},
	route.Examine: whole((*admin.Service).Examine),
	route.Check:   whole((*admin.Service).Check),
	route.Repair: asked(http.StatusOK, func(q *request, why admin.Because) (admin.Checked, error) {
		return q.service.Repair(q.ctx(), why)
	}),
	route.Export: export,
	route.Bulks:  list(route.ReadBulkFilter, (*admin.Service).Bulks),
	route.Bulk: func(q *request) error {
		got, err := q.service.Bulk(q.ctx(), q.path("id"))
		return q.reply(http.StatusOK, got, err)
	},
	route.StopBulk: asked(http.StatusAccepted, func(q *request, why admin.Because) (admin.Bulk, error) {
		return q.service.StopBulk(q.ctx(), q.path("id"), why)
	}),
	route.Value: func(q *request) error {
		value, err := q.service.Value(q.ctx(), q.path("id"), q.path("name"))
		return q.reply(http.StatusOK, value, err)
	},
}

// asked returns a handler that reads a body, calls do, and responds with its result.
func asked[In, Out any](status int, do func(*request, In) (Out, error)) func(*request) error {
	return func(q *request) error {
		var in In
		if err := q.read(&in); err != nil {
			return err
		}
		got, err := do(q, in)
		return q.reply(status, got, err)
	}
}

// whole returns a handler for an operation on the whole store.
func whole[T any](ask func(*admin.Service, context.Context) (T, error)) func(*request) error {
	return func(q *request) error {
		got, err := ask(q.service, q.ctx())
		return q.reply(http.StatusOK, got, err)
	}
}

// list returns a handler that responds with the entries that match the filter in the query.
func list[F, T any](read func(*route.Query) F, ask func(*admin.Service, context.Context, F) (T, error)) func(*request) error {
	return func(q *request) error {
		f := read(q.query)
		if q.query.Err != nil {
			return q.query.Err
		}
		found, err := ask(q.service, q.ctx(), f)
		return q.reply(http.StatusOK, found, err)
	}
}

func start(q *request) error {
	var in admin.Start
	var err error
	if in.Key, err = q.input(&in); err != nil {
		return err
	}
	started, err := q.service.Start(q.ctx(), in)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if started.Created {
		status = http.StatusCreated
		if at, err := route.Run.URL(started.Run); err == nil {
			q.w.Header().Set("Location", at)
		}
	}
	got := route.Started{Started: started}
	if wait := q.prefers(); wait > 0 {
		run, err := q.service.Wait(q.ctx(), started.Run, wait)
		if err == nil { // the start has succeeded even if the wait fails
			got.Outcome = &run
			q.applied(wait)
		}
	}
	return q.reply(status, got, nil)
}

// ask waits for the answer as long as the client prefers. The default is half a minute.
func ask(q *request) error {
	var in admin.Message
	var err error
	if in.Key, err = q.input(&in); err != nil {
		return err
	}
	wait := q.prefers()
	if wait > 0 {
		q.applied(wait)
	} else {
		wait = maxWait / 2
	}
	ctx, cancel := context.WithTimeout(q.ctx(), wait)
	defer cancel()
	got, err := q.service.Ask(ctx, q.path("id"), q.path("name"), in)
	if err != nil && ctx.Err() != nil && q.ctx().Err() == nil {
		return admin.NewProblem(admin.CodeTimeout, fmt.Sprintf("no answer within %v, but the question may have been accepted", wait), "ask again with the same Idempotency-Key, which the first request must have, too")
	}
	return q.reply(http.StatusOK, got, err)
}

// encode returns a value in JSON. Encoding cannot fail for the types of package admin.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// writeTime is the time limit for a single write.
const writeTime = 30 * time.Second

// answer writes a response. It ignores errors of the connection.
func answer(w http.ResponseWriter, kind string, status int, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	deadline := http.NewResponseController(w)
	_ = deadline.SetWriteDeadline(time.Now().Add(writeTime)) // response recorders in tests do not support deadlines
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// export sends a file while the export creates it. If an error occurs after a part of the file was
// sent, export can report the error only by breaking the connection. The file then lacks the last
// line.
func export(q *request) error {
	var asked admin.ExportRequest
	if err := q.read(&asked); err != nil {
		return err
	}
	asked.Source = "server"
	to := &sender{q: q}
	_, err := q.service.Export(q.ctx(), asked, to)
	if err != nil && to.sent {
		panic(http.ErrAbortHandler)
	}
	return err
}

// sender writes a response with a time limit for each write.
type sender struct {
	q    *request
	sent bool
}

func (s *sender) Write(p []byte) (int, error) {
	if !s.sent {
		s.q.w.Header().Set("Content-Type", s.q.route.Kind)
		s.sent = true
	}
	_ = http.NewResponseController(s.q.w).SetWriteDeadline(time.Now().Add(writeTime)) // response recorders in tests do not support deadlines
	return s.q.w.Write(p)
}
