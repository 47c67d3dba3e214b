package console

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// startView is the form that starts a run. It keeps its input if the start fails.
type startView struct {
	Known                                           []string // workflows in the catalog and workflows with runs
	Policies                                        []string
	Workflow, Input, ID, Policy, Queue, Delay, Tags string
	Hold                                            bool
	Fields                                          []field // fields from the schema of the input; nil if the input is entered as JSON
	Schema                                          bool    // whether a schema exists from which fields can be made
	None                                            bool    // whether the workflow takes no input
	Build                                           string  // the build that registered the schema
	Key                                             string
	Why, Reason                                     string // label and value of the field for the reason
	Command                                         string
	Problem                                         *admin.Problem
	Faults                                          []admin.Fault // faults of the input that belong to no field
}

// asJSON requests a single field for JSON, and asForm requests the fields of the schema.
const (
	asJSON = "json"
	asForm = "form"
)

func startPage(q *request) (*view, error) {
	s := &startView{Workflow: oneLine(q.query.Get("workflow")), Key: newKey()}
	s.describe(q, q.query.Get("show"))
	return q.starting(s), nil
}

func (q *request) starting(s *startView) *view {
	s.choices(q)
	s.Why = whyInJournal
	s.Command = q.h.command(strings.TrimSpace("start " + s.Workflow))
	v := &view{name: "start", Title: "Start a run", Nav: "start", Data: s}
	if s.Problem != nil {
		v.Status = s.Problem.Status
	}
	return v
}

// choices sets the suggestions of the form.
func (s *startView) choices(q *request) {
	s.Policies = admin.Policies()
	names := map[string]bool{}
	page, _ := q.service.Catalog(q.ctx(), admin.CatalogFilter{Limit: 200}) // after an error, the form has fewer suggestions
	for _, w := range page.Workflows {
		names[w.Workflow] = true
	}
	counts, _ := q.service.Count(q.ctx(), admin.Filter{Budget: 2000})
	for _, c := range counts.Counts {
		names[c.Workflow] = true
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return admin.Reserved(name) })
	s.Known = slices.Sorted(maps.Keys(names))
}

// describe reads the input schema that the newest build of the workflow registered in the catalog.
// It creates fields from the schema unless JSON is requested.
func (s *startView) describe(q *request, show string) {
	if s.Workflow == "" {
		return
	}
	page, err := q.service.Catalog(q.ctx(), admin.CatalogFilter{Workflow: s.Workflow, Limit: 1})
	if err != nil || len(page.Workflows) == 0 || len(page.Workflows[0].Versions) == 0 {
		return // without a schema, the input is entered as JSON
	}
	newest := page.Workflows[0].Versions[0]
	s.Build = newest.Build
	var root schema
	if json.Unmarshal(newest.Input, &root) == nil && slices.Equal(root.Type, kinds{"null"}) {
		s.None = true
		return
	}
	fields := formOf(newest.Input)
	if s.Schema = fields != nil; s.Schema && show != asJSON {
		s.Fields = fields
	}
}

// read sets the fields from the submitted form.
func (s *startView) read(q *request, form url.Values) []admin.Fault {
	show := form.Get("as")
	if form.Has("input") {
		show = asJSON
	}
	s.describe(q, show)
	if s.Fields == nil {
		s.Input = strings.TrimSpace(form.Get("input"))
		return nil
	}
	for i := range s.Fields {
		s.Fields[i].Value = form.Get(s.Fields[i].Name)
	}
	input, faults := typedInput(s.Fields)
	s.Input = string(input)
	return faults
}

// turn converts the input between fields and JSON.
func (s *startView) turn(q *request, show string) {
	input := s.Input
	s.Fields = nil
	s.describe(q, show)
	if s.Fields == nil {
		var b bytes.Buffer
		if json.Indent(&b, []byte(input), "", "  ") == nil {
			s.Input = b.String()
		}
		return
	}
	if !fillIn(s.Fields, []byte(input)) {
		s.Fields = nil
		s.Problem = admin.ProblemOf(&admin.InputError{What: "the form has no fields for all of this input", Fix: "start it as JSON, or remove fields that are not in the schema"})
	}
}

// start starts a run. A form that is submitted twice starts only one run.
func start(q *request) (string, *view, error) {
	form := q.r.PostForm
	s := &startView{
		Workflow: strings.TrimSpace(form.Get("workflow")), ID: strings.TrimSpace(form.Get("id")), Policy: form.Get("policy"),
		Queue: strings.TrimSpace(form.Get("queue")), Delay: strings.TrimSpace(form.Get("delay")), Tags: form.Get("tags"), Hold: form.Get("hold") != "", Key: form.Get("key"), Reason: because(form),
	}
	faults := s.read(q, form)
	if show := form.Get("show"); show != "" { // the request only switches between fields and JSON
		s.turn(q, show)
		return "", q.starting(s), nil
	}
	asked, err := s.start()
	if err == nil && len(faults) > 0 {
		p := admin.NewProblem(admin.CodeInput, "the input cannot be read", "correct the marked fields")
		p.Faults, err = faults, p
	}
	if err == nil {
		var to string
		to, _, err = q.h.once.do(q.who.Name, s.Key, strings.Join([]string{"start", s.Workflow, s.Input, s.ID}, "\x00"), func() (string, *view, error) {
			got, err := q.service.Start(q.ctx(), asked)
			return link(q.h.cfg.Prefix, "runs", got.Run), nil, err
		})
		if err == nil {
			return to, nil, nil
		}
	}
	s.Problem, s.Key = admin.ProblemOf(err), newKey()
	s.Faults = blame(s.Fields, s.Problem.Faults)
	return "", q.starting(s), nil
}

// start returns the parameters of the run that the form describes.
func (s *startView) start() (admin.Start, error) {
	a := admin.Start{Workflow: s.Workflow, ID: s.ID, Queue: s.Queue, Hold: s.Hold, Reason: s.Reason}
	if s.ID != "" {
		a.Policy = s.Policy
	}
	if s.Input != "" {
		a.Input = admin.Payload(s.Input)
	}
	if s.Delay != "" {
		seconds, err := strconv.ParseFloat(s.Delay, 64)
		if err != nil || seconds < 0 || seconds > 1e9 {
			return a, &admin.InputError{What: "the delay is not a number of seconds", Fix: "write as 90, or leave it out"}
		}
		a.DelayMs = int64(seconds * 1000)
	}
	for _, pair := range admin.SplitWords(s.Tags) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return a, &admin.InputError{What: "the tag " + pair + " has no =", Fix: "write name=value, with spaces between several"}
		}
		if a.Tags == nil {
			a.Tags = map[string]string{}
		}
		a.Tags[name] = value
	}
	return a, nil
}
