package console

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// startView is the form by which a run is started. What was typed stays when something is wrong.
type startView struct {
	Known                                           []string // workflows that have runs
	Policies                                        []string
	Workflow, Input, ID, Policy, Queue, Delay, Tags string
	Hold                                            bool
	Key                                             string
	Problem                                         *admin.Problem
	Size                                            int
}

func startPage(q *request) (*view, error) {
	s := &startView{Workflow: q.query.Get("workflow"), Key: newKey()}
	s.choices(q)
	return &view{name: "start", Title: "Start a run", Nav: "start", Data: s}, nil
}

// choices fills in what the form proposes.
func (s *startView) choices(q *request) {
	s.Policies = admin.Policies()
	names := map[string]bool{}
	counts, _ := q.service.Count(q.ctx(), admin.Filter{}) // without it nothing is proposed
	for _, c := range counts.Counts {
		names[c.Workflow] = true
	}
	s.Known = slices.Sorted(maps.Keys(names))
}

// start starts a run. A form that is sent twice starts one.
func start(q *request) (string, *view, error) {
	form := q.r.PostForm
	s := &startView{
		Workflow: strings.TrimSpace(form.Get("workflow")), Input: strings.TrimSpace(form.Get("input")), ID: strings.TrimSpace(form.Get("id")), Policy: form.Get("policy"),
		Queue: strings.TrimSpace(form.Get("queue")), Delay: strings.TrimSpace(form.Get("delay")), Tags: form.Get("tags"), Hold: form.Get("hold") != "", Key: form.Get("key"),
	}
	asked, err := s.start()
	if err == nil {
		var to string
		to, _, err = q.h.once.do(strings.Join([]string{q.who.Name, s.Key, "start", s.Workflow, s.Input, s.ID}, "\x00"), func() (string, *view, error) {
			got, err := q.service.Start(q.ctx(), asked)
			return link(q.h.cfg.Prefix, "runs", got.Run), nil, err
		})
		if err == nil {
			return to, nil, nil
		}
	}
	s.Problem, s.Key = admin.ProblemOf(err), newKey()
	s.choices(q)
	return "", &view{name: "start", Title: "Start a run", Nav: "start", Status: s.Problem.Status, Data: s}, nil
}

// start returns what the form asks for.
func (s *startView) start() (admin.Start, error) {
	a := admin.Start{Workflow: s.Workflow, ID: s.ID, Queue: s.Queue, Hold: s.Hold}
	if s.ID != "" {
		a.Policy = s.Policy
	}
	if s.Input != "" {
		a.Input = admin.Payload(s.Input)
	}
	if s.Delay != "" {
		seconds, err := strconv.ParseFloat(s.Delay, 64)
		if err != nil || seconds < 0 || seconds > 1e9 {
			return a, &admin.InputError{What: "the delay is no number of seconds", Fix: "write as 90, or leave it out"}
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
