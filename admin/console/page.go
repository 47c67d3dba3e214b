package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/body"
)

// request is an authenticated request.
type request struct {
	h       *Handler
	r       *http.Request
	who     admin.Principal
	service Service // service with the rights of the principal
	now     time.Time
	query   url.Values
}

func (h *Handler) request(r *http.Request, who admin.Principal) *request {
	who.Face = admin.FaceConsole
	return &request{h: h, r: r, who: who, service: &placed{Service: h.service(who)}, now: h.cfg.Now(), query: r.URL.Query()}
}

func (q *request) ctx() context.Context    { return q.r.Context() }
func (q *request) path(name string) string { return q.r.PathValue(name) }

// Service contains the operations that pages need, with the rights of one principal.
// [admin.Service] implements it.
type Service interface {
	Runs(ctx context.Context, f admin.Filter) (admin.RunPage, error)
	Count(ctx context.Context, f admin.Filter) (admin.Counts, error)
	Run(ctx context.Context, ref string) (admin.Run, error)
	Events(ctx context.Context, ref string, from uint64, limit int) (admin.EventPage, error)
	Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error]
	Inbox(ctx context.Context, ref string) (admin.Inbox, error)
	Tree(ctx context.Context, ref string) (admin.Tree, error)

	Act(ctx context.Context, ref string, a admin.Action) (admin.Acted, error)
	Start(ctx context.Context, in admin.Start) (admin.Started, error)
	Send(ctx context.Context, ref, topic string, m admin.Message) (admin.Sent, error)
	Ask(ctx context.Context, ref, name string, m admin.Message) (admin.Answer, error)

	Stream(ctx context.Context, ref, name string, from uint64, limit int) (admin.ChunkPage, error)

	Hooks(ctx context.Context, f admin.HookFilter) (admin.HookPage, error)
	Hook(ctx context.Context, token string) (admin.Hook, error)
	ResumeHook(ctx context.Context, token string, m admin.Message) (admin.Sent, error)

	Failures(ctx context.Context, f admin.FailureFilter) (admin.FailurePage, error)
	Workers(ctx context.Context, f admin.FleetFilter) (admin.WorkerPage, error)
	Queues(ctx context.Context, f admin.FleetFilter) (admin.QueuePage, error)
	Rates(ctx context.Context) (admin.Rates, error)
	Catalog(ctx context.Context, f admin.CatalogFilter) (admin.CatalogPage, error)

	Schedules(ctx context.Context, f admin.ScheduleFilter) (admin.SchedulePage, error)
	Schedule(ctx context.Context, name string) (admin.Schedule, error)
	ActOnSchedule(ctx context.Context, name string, a admin.ScheduleAction) (admin.ScheduleActed, error)

	Pools(ctx context.Context, f admin.PoolFilter) (admin.PoolPage, error)
	ActOnPool(ctx context.Context, name string, a admin.PoolAction) (admin.PoolActed, error)

	Deploys(ctx context.Context) (admin.Deploys, error)
	Drained(ctx context.Context, build string) (admin.Drained, error)
	Ramp(ctx context.Context, r admin.Ramp) (admin.Ramped, error)
	ActOnDeploy(ctx context.Context, build string, a admin.DeployAction) (admin.DeployActed, error)

	Views(ctx context.Context) (admin.ViewList, error)
	SaveView(ctx context.Context, name string, v admin.NewView) (admin.ViewActed, error)
	DeleteView(ctx context.Context, name string, why admin.Because) (admin.ViewActed, error)

	Preview(ctx context.Context, r admin.BulkRequest) (admin.BulkPreview, error)
	StartBulk(ctx context.Context, b admin.NewBulk) (admin.Bulk, error)
	Bulk(ctx context.Context, id string) (admin.Bulk, error)
	Bulks(ctx context.Context, f admin.BulkFilter) (admin.BulkPage, error)
	StopBulk(ctx context.Context, id string, why admin.Because) (admin.Bulk, error)

	Journal(ctx context.Context, f admin.JournalFilter) (admin.JournalPage, error)

	Examine(ctx context.Context) (admin.Exam, error)
	Check(ctx context.Context) (admin.Checked, error)
	Repair(ctx context.Context, why admin.Because) (admin.Checked, error)
}

// view is a page before it is drawn.
type view struct {
	name   string // name of its template
	Title  string
	Nav    string // menu item of the page
	Status int    // HTTP status; 0 means 200
	Live   bool   // whether the page is drawn again after its contents have changed
	Run    string // the run that the page shows; events in the log of the run change the page
	Data   any
}

// A page returns the view for a request.
type page func(q *request) (*view, error)

// pages contains all pages by pattern.
var pages = map[string]page{
	"/runs":                    runsPage,
	"/runs/{id}":               runPage("timeline", timelineTab),
	"/runs/{id}/events":        runPage("events", eventsTab),
	"/runs/{id}/data":          runPage("data", dataTab),
	"/runs/{id}/event/{seq}":   runPage("event", eventTab),
	"/runs/{id}/tree":          runPage("tree", treeTab),
	"/runs/{id}/talk":          runPage("talk", talkTab),
	"/runs/{id}/audit":         runPage("audit", auditTab),
	"/runs/{id}/send":          sendPage,
	"/runs/{id}/ask":           askRunPage,
	"/act/{verb}":              actPage,
	"/failures":                failuresPage,
	"/alerts":                  alertsPage,
	"/queues":                  queuesPage,
	"/workers":                 workersPage,
	"/schedules":               schedulesPage,
	"/schedules/{name}":        schedulePage,
	"/schedules/{name}/{verb}": scheduleForm.page,
	"/pools/{name}/{verb}":     poolForm.page,
	"/deploys":                 deploysPage,
	"/deploys/{name}/{verb}":   deployForm.page,
	"/start":                   startPage,
	"/views/save":              saveViewPage,
	"/views/delete":            deleteViewPage,
	"/bulk":                    bulksPage,
	"/bulk/new":                newBulkPage,
	"/bulk/{id}":               bulkPage,
	"/bulk/{id}/stop":          stopPage,
	"/journal":                 journalPage,
	"/inbox":                   hooksPage,
	"/inbox/resume":            hookPage,
	"/checks":                  checksPage,
	"/checks/plan":             planPage,
}

// forms contains the requests that change something, by pattern. Each of them returns the URL to
// redirect to, or a view.
var forms = map[string]func(q *request) (to string, v *view, err error){
	"/act/{verb}":              act,
	"/runs/{id}/send":          send,
	"/runs/{id}/ask":           askRun,
	"/start":                   start,
	"/views/save":              saveView,
	"/views/delete":            deleteView,
	"/bulk/new":                newBulk,
	"/bulk/{id}/stop":          stopBulk,
	"/inbox/resume":            resumeHook,
	"/checks/repair":           repair,
	"/schedules/{name}/{verb}": scheduleForm.submit,
	"/pools/{name}/{verb}":     poolForm.submit,
	"/deploys/{name}/{verb}":   deployForm.submit,
}

func nowhere(*request) (*view, error) {
	return nil, admin.NewProblem(admin.CodeNotFound, "there is no such page", "go to the list of runs")
}

// page returns a handler that serves a page.
func (h *Handler) page(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := h.request(r, principalOf(r.Context()))
		v, err := p(q)
		if to, ok := errors.AsType[*redirection](err); ok {
			http.Redirect(w, r, to.to, http.StatusSeeOther)
			return
		}
		if err != nil {
			h.fail(w, q, err)
			return
		}
		h.show(w, q, v)
	})
}

// redirection is an error that reports the URL to which a page has moved.
type redirection struct{ to string }

// Error returns a text with the URL.
func (r *redirection) Error() string { return "it is at " + r.to }

// formTime is the time limit for reading the body of a form.
const formTime = 30 * time.Second

// form returns a handler for a request that changes something.
func (h *Handler) form(do func(q *request) (string, *view, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := h.request(r, principalOf(r.Context()))
		if wait := h.changes.Take(q.who.Name); wait > 0 { // checked before anything is written to the journal
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			h.fail(w, q, admin.NewProblem(admin.CodeBusy, "the limit of changes per second of a principal is reached", "try again after the time of Retry-After"))
			return
		}
		if err := body.Form(w, r, h.cfg.MaxBody, formTime); err != nil {
			h.fail(w, q, err)
			return
		}
		to, v, err := do(q)
		switch {
		case err != nil:
			h.fail(w, q, err)
		case to != "":
			http.Redirect(w, r, to, http.StatusSeeOther)
		default:
			h.show(w, q, v)
		}
	})
}

// file returns a handler that serves a download.
func (h *Handler) file(do func(q *request, w http.ResponseWriter) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := h.request(r, principalOf(r.Context()))
		if err := do(q, w); err != nil {
			h.fail(w, q, err)
		}
	})
}

// fail shows a problem as a page.
func (h *Handler) fail(w http.ResponseWriter, q *request, err error) {
	p := admin.ProblemOf(err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.show(w, q, &view{name: "problem", Title: p.Title, Status: p.Status, Data: p})
}

// show draws a page completely before it sends the page.
func (h *Handler) show(w http.ResponseWriter, q *request, v *view) {
	var b bytes.Buffer
	if err := h.pages.draw(&b, q, v, partOf(q.ctx())); err != nil {
		http.Error(w, "the page cannot be drawn", http.StatusInternalServerError) // tests detect errors in templates
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = b.WriteTo(w) // an error means that the reader has disconnected
}

//go:embed templates
var templateFiles embed.FS

// templates draws pages with the embedded templates.
type templates struct {
	h   *Handler
	all map[string]*template.Template
}

func newTemplates(h *Handler) *templates {
	t := &templates{h: h, all: map[string]*template.Template{}}
	base := template.Must(template.New("").Funcs(t.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // cannot happen, because the files are embedded
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		page := template.Must(base.Clone())
		page.Funcs(template.FuncMap{"cells": func(list string, row any, d *drawn) ([]cell, error) { return cellsOf(page, list, row, d) }})
		t.all[name] = template.Must(page.ParseFS(templateFiles, "templates/"+f.Name()))
	}
	return t
}

// drawn contains the data for the templates.
type drawn struct {
	*view
	Prefix  string
	Store   string
	Who     admin.Principal
	Now     time.Time
	Self    string // URL of the page
	Refresh string // URL of the updates of the page; empty if there are none
	Menu    []menuItem
	Logout  bool
	Notice  string // message about the preceding action

	CodecURL string
}

// menuItem is an item of the menu. It refers to a part of the console.
type menuItem struct {
	At, Name string
	Role     admin.Role // minimum role
	Fleet    bool       // whether the part concerns the runs of all owners
}

// menu lists the parts of the console.
var menu = []menuItem{
	{"runs", "Runs", admin.RoleViewer, false}, {"failures", "Failures", admin.RoleViewer, true}, {"alerts", "Alerts", admin.RoleViewer, false}, {"queues", "Queues", admin.RoleViewer, true},
	{"workers", "Workers", admin.RoleViewer, true}, {"deploys", "Deployments", admin.RoleViewer, true}, {"schedules", "Schedules", admin.RoleViewer, true}, {"inbox", "Hooks", admin.RoleViewer, false}, {"bulk", "Bulk", admin.RoleViewer, false},
	{"journal", "Journal", admin.RoleOperator, false}, {"checks", "Checks", admin.RoleOperator, true}, {"start", "Start", admin.RoleOperator, false},
}

// menuFor returns the parts that a principal may use.
func menuFor(who admin.Principal) []menuItem {
	var all []menuItem
	for _, m := range menu {
		if who.Role.Allows(m.Role) && !(m.Fleet && who.Owner != "") {
			all = append(all, m)
		}
	}
	return all
}

func (t *templates) drawn(q *request, v *view) *drawn {
	d := &drawn{view: v, Prefix: t.h.cfg.Prefix, CodecURL: t.h.cfg.CodecURL, Store: t.h.cfg.Store, Who: q.who, Now: q.now, Menu: menuFor(q.who), Notice: notices[q.query.Get("did")], Logout: t.h.cfg.Session != nil && q.who.Name != "", Self: t.h.cfg.Prefix + strings.TrimPrefix(q.r.URL.RequestURI(), "/")}
	if v.Live {
		d.Refresh = t.h.cfg.Prefix + "live?" + url.Values{"page": {q.r.URL.RequestURI()}}.Encode()
	}
	return d
}

// draw draws a page, or only the changing part of the page.
func (t *templates) draw(w io.Writer, q *request, v *view, part string) error {
	return t.all[v.name].ExecuteTemplate(w, part, t.drawn(q, v))
}

// The parts of a page.
const (
	wholePage = "page"
	mainPart  = "main"
)

type partKey struct{}

// onlyMain returns a context in which only the changing part of a page is drawn.
func onlyMain(ctx context.Context) context.Context {
	return context.WithValue(ctx, partKey{}, mainPart)
}

func partOf(ctx context.Context) string {
	part, ok := ctx.Value(partKey{}).(string)
	if !ok {
		return wholePage
	}
	return part
}
