package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// namedForm is the form for the actions on things that have names, such as limits. Its URL has the
// elements name and verb.
type namedForm struct {
	things  string          // as in "there is no action x for limits"
	nav     string          // menu item, and URL, of the page that lists the things
	command string          // command of flowctl
	verbs   map[string]verb // texts for the actions
	fill    func(q *request, a *ask)
	known   func(q *request, name string) error // returns an error if there is no such thing
	act     func(q *request, name, verb string, form url.Values) error
	did     string // prefix of the keys in notices
}

// ask returns the form, which ends with the field for the reason.
func (n *namedForm) ask(q *request) (*ask, error) {
	name, at := q.path("name"), q.path("verb")
	v, ok := n.verbs[at]
	if !ok {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no action %.40q for %s", at, n.things), "use one of "+strings.Join(slices.Sorted(maps.Keys(n.verbs)), ", "))
	}
	a := &ask{
		Title: v.Name + " " + cut(60, name), Will: v.Will, Final: v.Final, Danger: v.Final, Button: v.Name,
		Command: q.h.command(n.command, at, shell(name)), Back: link(q.h.cfg.Prefix, n.nav), Fields: []field{whyField()},
	}
	n.fill(q, a)
	return a, nil
}

// before adds fields before the field for the reason.
func (a *ask) before(fields ...field) { a.Fields = append(fields, a.Fields...) }

func (n *namedForm) page(q *request) (*view, error) {
	a, err := n.ask(q)
	if err == nil {
		err = n.known(q, q.path("name"))
	}
	if err != nil {
		return nil, err
	}
	return q.asking(n.nav, a), nil
}

func (n *namedForm) submit(q *request) (string, *view, error) {
	a, err := n.ask(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered(n.nav, a, func(form url.Values) (string, error) {
		to, at := a.Back, q.path("verb")
		if a.Final { // the thing has no page any longer
			to = link(q.h.cfg.Prefix, n.nav)
		}
		return to + "?did=" + n.did + "-" + at, n.act(q, q.path("name"), at, form)
	})
}

// deployVerbs contains the texts for the actions on builds.
var deployVerbs = map[string]verb{
	"ramp":     {Name: "Ramp", Will: "New runs of pinned workflows are distributed anew within 5 seconds. The other builds share the rest. Existing runs do not move."},
	"retire":   {Name: "Retire", Will: "The build gets no new runs of pinned workflows, its workers stop claiming runs, and its pinned runs move to other builds."},
	"unretire": {Name: "Unretire", Will: "The build is in use again: its workers claim runs."},
}

var deployForm = namedForm{things: "builds", nav: "deploys", command: "deploys", did: "deploy", verbs: deployVerbs,
	fill: func(q *request, a *ask) {
		switch q.path("verb") {
		case "ramp":
			a.Command += "=PERCENT"
			a.before(field{Name: "percent", Label: "Percent of the new runs", Kind: "number", Required: true})
		case "retire":
			a.before(field{Name: "to", Label: "Build that receives its pinned runs", Hint: "empty: any build", Flag: "to"})
		}
	},
	known: func(q *request, _ string) error {
		// Only the action refuses an unknown build: the list of builds depends on all open runs.
		_, err := q.service.Workers(q.ctx(), admin.FleetFilter{Limit: 1})
		return err
	},
	act: func(q *request, build, verb string, form url.Values) error {
		if verb != "ramp" {
			_, err := q.service.ActOnDeploy(q.ctx(), build, admin.DeployAction{Verb: verb, To: oneLine(form.Get("to")), Reason: because(form)})
			return err
		}
		n, err := whole(form.Get("percent"), "percent")
		if err == nil {
			_, err = q.service.Ramp(q.ctx(), admin.Ramp{Percent: map[string]int{build: n}, Reason: because(form)})
		}
		return err
	},
}

// scheduleVerbs contains the texts for the actions on schedules.
var scheduleVerbs = map[string]verb{
	"pause":    {Name: "Pause", Will: "Its ticks are skipped from now on, and are not made up for. Runs that it has started continue."},
	"resume":   {Name: "Resume", Will: "Its next tick starts a run again."},
	"trigger":  {Name: "Trigger", Will: "A run is started now, as by a tick. The overlap policy of the schedule applies."},
	"backfill": {Name: "Backfill", Will: "The ticks between two times in the past are started now, as if they were due. Ticks that have started a run before are not started again."},
	"delete":   {Name: "Delete", Will: "It starts no more runs. Runs that it has started continue.", Final: true},
}

var scheduleForm = namedForm{things: "schedules", nav: "schedules", command: "schedules", did: "schedule", verbs: scheduleVerbs,
	fill: func(q *request, a *ask) {
		a.Back = link(q.h.cfg.Prefix, "schedules", q.path("name"))
		switch q.path("verb") {
		case "pause":
			a.Fields[0].Label = "Why? The reason is shown beside the schedule, and stored in the journal."
		case "backfill":
			when := "a time as 2026-11-24T08:00, in UTC, or how long ago, as 48h"
			a.before(
				field{Name: "from", Label: "From", Hint: when, Required: true, Flag: "from"}, field{Name: "to", Label: "To, not included", Hint: when, Value: "0s", Required: true, Flag: "to"},
				field{Name: "overlap", Label: "If a run is active", Kind: "select", Options: append([]string{""}, admin.Overlaps()...), Hint: "empty: the overlap policy of the schedule", Flag: "overlap"},
			)
		}
	},
	known: func(q *request, name string) error {
		_, err := q.service.Schedule(q.ctx(), name)
		return err
	},
	act: func(q *request, name, verb string, form url.Values) (err error) {
		act := admin.ScheduleAction{Verb: verb, Reason: because(form)}
		if verb == "backfill" {
			act.Fill = &admin.Backfill{Overlap: form.Get("overlap")}
			if act.Fill.From, err = admin.ParseTime("from", oneLine(form.Get("from")), q.now); err != nil {
				return err
			}
			if act.Fill.To, err = admin.ParseTime("to", oneLine(form.Get("to")), q.now); err != nil {
				return err
			}
		}
		_, err = q.service.ActOnSchedule(q.ctx(), name, act)
		return err
	},
}

// poolVerbs contains the texts for the actions on limits.
var poolVerbs = map[string]verb{
	"set":    {Name: "Set", Will: "The limit applies at once, for all workers, instead of the declaration in their code. Holders of permits finish first."},
	"reset":  {Name: "Reset", Will: "The settings made here are removed: the limit applies as the code declares it."},
	"pause":  {Name: "Pause", Will: "Nothing more begins under it. Holders of permits finish."},
	"resume": {Name: "Resume", Will: "Waiting work begins again, as the limit allows."},
}

var poolForm = namedForm{things: "limits", nav: "queues", command: "pools", did: "pool", verbs: poolVerbs,
	fill: func(q *request, a *ask) {
		key := q.query.Get("key")
		if key != "" {
			a.Title += ", key " + cut(40, key)
			a.Command += " --key " + shell(key)
		}
		if q.path("verb") == "set" {
			a.before(poolFields(q.poolNow(q.path("name"), key))...)
		}
	},
	known: func(q *request, name string) error {
		_, err := q.service.Pools(q.ctx(), admin.PoolFilter{Name: name, Limit: 1})
		return err
	},
	act: func(q *request, name, verb string, form url.Values) error {
		act := admin.PoolAction{Verb: verb, Key: q.query.Get("key"), Reason: because(form)}
		if verb == "set" {
			c, err := poolConfig(form)
			if err != nil {
				return err
			}
			act.Config = &c
		}
		_, err := q.service.ActOnPool(q.ctx(), name, act)
		return err
	},
}

// poolNow returns the configuration of a limit. It is zero for an unknown limit.
func (q *request) poolNow(name, key string) admin.PoolConfig {
	page, err := q.service.Pools(q.ctx(), admin.PoolFilter{Name: name, Limit: 1000})
	if err != nil {
		return admin.PoolConfig{} // the error is shown after the form is submitted
	}
	for _, p := range page.Pools {
		if p.Key == key {
			return p.PoolConfig
		}
	}
	return admin.PoolConfig{}
}

// poolFields returns the fields for the configuration of a limit, filled with c.
func poolFields(c admin.PoolConfig) []field {
	text := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	per := ""
	if c.PerMs > 0 {
		per = (time.Duration(c.PerMs) * time.Millisecond).String()
	}
	refuse := ""
	if c.Refuse {
		refuse = "on"
	}
	return []field{
		{Name: "atOnce", Label: "At once", Kind: "number", Value: text(c.AtOnce), Flag: "-"}, {Name: "rate", Label: "Starts per interval", Kind: "number", Value: text(c.Rate), Flag: "rate"},
		{Name: "per", Label: "Interval", Value: per, Hint: "as 1m; empty: a second", Flag: "per"}, {Name: "burst", Label: "Burst", Kind: "number", Value: text(c.Burst), Flag: "burst"},
		{Name: "waiting", Label: "Waiting, at most", Kind: "number", Value: text(c.Waiting), Hint: "empty: any number", Flag: "waiting"}, {Name: "refuse", Label: "Refuse starts that would have to wait", Kind: "check", Value: refuse, Flag: "refuse"},
	}
}

func poolConfig(form url.Values) (c admin.PoolConfig, err error) {
	for name, to := range map[string]*int{"atOnce": &c.AtOnce, "rate": &c.Rate, "burst": &c.Burst, "waiting": &c.Waiting} {
		if *to, err = whole(form.Get(name), name); err != nil {
			return c, err
		}
	}
	if per := oneLine(form.Get("per")); per != "" {
		d, err := time.ParseDuration(per)
		if err != nil {
			return c, &admin.InputError{What: fmt.Sprintf("%.20q is not a duration", per), Fix: "write it as 1m or 500ms, or leave it out: a second"}
		}
		c.PerMs = d.Milliseconds()
	}
	c.Refuse = form.Get("refuse") != ""
	return c, nil
}

// bounds describes the configuration of a limit in a few words.
func bounds(p *admin.Pool) string {
	s := ""
	if p.AtOnce > 0 {
		s = number(p.AtOnce) + " at once"
	}
	if p.Rate > 0 {
		per := time.Duration(p.PerMs) * time.Millisecond
		if per == 0 {
			per = time.Second
		}
		if s != "" {
			s += ", "
		}
		s += number(p.Rate) + " in " + took(per)
	}
	if p.Waiting > 0 {
		s += ", " + number(p.Waiting) + " may wait"
	}
	if p.Refuse {
		s += ", others are refused"
	}
	return s
}
