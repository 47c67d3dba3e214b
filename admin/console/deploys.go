package console

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// deployVerbs contains the texts for the actions on builds.
var deployVerbs = map[string]verb{
	"ramp":     {Name: "Ramp", Will: "New runs of pinned workflows are distributed anew within 5 seconds. The other builds share the rest. Existing runs do not move."},
	"retire":   {Name: "Retire", Will: "The build gets no new runs of pinned workflows, its workers stop claiming runs, and its pinned runs move to other builds."},
	"unretire": {Name: "Unretire", Will: "The build is in use again: its workers claim runs."},
}

// deploysView is the list of builds.
type deploysView struct {
	admin.Deploys
	Drained *admin.Drained // the answer about one build, if it was asked for
	Command string
}

// deploysPage lists the builds. It reads the logs of open runs, so an open page is not drawn again by
// itself.
func deploysPage(q *request) (*view, error) {
	l := &deploysView{Command: q.h.command("deploys")}
	if build := oneLine(q.query.Get("drained")); build != "" {
		d, err := q.service.Drained(q.ctx(), build)
		if err != nil {
			return nil, err
		}
		l.Drained, l.Command = &d, l.Command+" drained "+shell(build)
	}
	var err error
	if l.Deploys, err = q.service.Deploys(q.ctx()); err != nil {
		return nil, err
	}
	return &view{name: "deploys", Title: "Deployments", Nav: "deploys", Data: l}, nil
}

// deployForm returns the form for a change of a build.
func deployForm(q *request) (*ask, error) {
	build, at := q.path("name"), q.path("verb")
	v, ok := deployVerbs[at]
	if !ok {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no action %.40q for builds", at), "go to the deployments")
	}
	a := &ask{Title: v.Name + " " + cut(60, build), Will: v.Will, Button: v.Name, Back: link(q.h.cfg.Prefix, "deploys"), Command: q.h.command("deploys", at, shell(build))}
	switch at {
	case "ramp":
		a.Command += "=PERCENT"
		a.Fields = []field{{Name: "percent", Label: "Percent of the new runs", Kind: "number", Required: true}}
	case "retire":
		a.Fields = []field{{Name: "to", Label: "Build that receives its pinned runs", Hint: "empty: any build", Flag: "to"}}
	}
	a.Fields = append(a.Fields, field{Name: "reason", Label: whyInJournal, Flag: "reason"})
	return a, nil
}

func deployActPage(q *request) (*view, error) {
	a, err := deployForm(q)
	if err == nil {
		_, err = q.service.Drained(q.ctx(), q.path("name"))
	}
	if err != nil {
		return nil, err
	}
	return q.asking("deploys", a), nil
}

func actOnDeploy(q *request) (string, *view, error) {
	a, err := deployForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("deploys", a, func(form url.Values) (string, error) {
		build, verb, reason := q.path("name"), q.path("verb"), strings.TrimSpace(form.Get("reason"))
		if verb == "ramp" {
			n, err := whole(form.Get("percent"), "percent")
			if err == nil {
				_, err = q.service.Ramp(q.ctx(), admin.Ramp{Percent: map[string]int{build: n}, Reason: reason})
			}
			return link(q.h.cfg.Prefix, "deploys") + "?did=deploy-ramp", err
		}
		_, err := q.service.ActOnDeploy(q.ctx(), build, admin.DeployAction{Verb: verb, To: oneLine(form.Get("to")), Reason: reason})
		return link(q.h.cfg.Prefix, "deploys") + "?did=deploy-" + verb, err
	})
}
