package console

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// poolVerbs contains the texts for the actions on limits.
var poolVerbs = map[string]verb{
	"set":    {Name: "Set", Will: "The limit applies at once, for all workers, instead of the declaration in their code. Holders of permits finish first."},
	"reset":  {Name: "Reset", Will: "The settings made here are removed: the limit applies as the code declares it."},
	"pause":  {Name: "Pause", Will: "Nothing more begins under it. Holders of permits finish."},
	"resume": {Name: "Resume", Will: "Waiting work begins again, as the limit allows."},
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

// poolForm returns the form for a change of a limit.
func poolForm(q *request) (*ask, error) {
	name, at, key := q.path("name"), q.path("verb"), q.query.Get("key")
	v, ok := poolVerbs[at]
	if !ok {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no action %.40q for limits", at), "go to the queues and limits")
	}
	a := &ask{Title: v.Name + " " + cut(60, name), Will: v.Will, Button: v.Name, Back: link(q.h.cfg.Prefix, "queues")}
	if key != "" {
		a.Title += ", key " + cut(40, key)
	}
	a.Command = q.h.command("pools", at, shell(name))
	if key != "" {
		a.Command += " --key " + shell(key)
	}
	if at == "set" {
		c := q.poolNow(name, key)
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
		a.Fields = []field{
			{Name: "atOnce", Label: "At once", Kind: "number", Value: text(c.AtOnce), Flag: "-"}, {Name: "rate", Label: "Starts per interval", Kind: "number", Value: text(c.Rate), Flag: "rate"},
			{Name: "per", Label: "Interval", Value: per, Hint: "as 1m; empty: a second", Flag: "per"}, {Name: "burst", Label: "Burst", Kind: "number", Value: text(c.Burst), Flag: "burst"},
			{Name: "waiting", Label: "Waiting, at most", Kind: "number", Value: text(c.Waiting), Hint: "empty: any number", Flag: "waiting"}, {Name: "refuse", Label: "Refuse starts that would have to wait", Kind: "check", Value: refuse, Flag: "refuse"},
		}
	}
	a.Fields = append(a.Fields, field{Name: "reason", Label: whyInJournal, Flag: "reason"})
	return a, nil
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

func poolActPage(q *request) (*view, error) {
	a, err := poolForm(q)
	if err == nil {
		_, err = q.service.Pools(q.ctx(), admin.PoolFilter{Name: q.path("name"), Limit: 1})
	}
	if err != nil {
		return nil, err
	}
	return q.asking("queues", a), nil
}

func actOnPool(q *request) (string, *view, error) {
	a, err := poolForm(q)
	if err != nil {
		return "", nil, err
	}
	return q.answered("queues", a, func(form url.Values) (string, error) {
		act := admin.PoolAction{Verb: q.path("verb"), Key: q.query.Get("key"), Reason: strings.TrimSpace(form.Get("reason"))}
		if act.Verb == "set" {
			c, err := poolConfig(form)
			if err != nil {
				return "", err
			}
			act.Config = &c
		}
		_, err := q.service.ActOnPool(q.ctx(), q.path("name"), act)
		return link(q.h.cfg.Prefix, "queues") + "?did=pool-" + act.Verb, err
	})
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
