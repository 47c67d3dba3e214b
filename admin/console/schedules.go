package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// scheduleVerbs are the actions on schedules as people see them.
var scheduleVerbs = map[string]verb{
	"pause":    {Name: "Pause", Will: "Its ticks pass from now on, and are not made up for. Runs that it has started go on."},
	"resume":   {Name: "Resume", Will: "Its next tick starts a run again."},
	"trigger":  {Name: "Trigger", Will: "A run is started now, as by a tick. What the schedule says about a run that is active holds."},
	"backfill": {Name: "Backfill", Will: "The ticks between two times in the past are started now, as if they were due. Ticks that have started a run before are not started again."},
	"delete":   {Name: "Delete", Will: "It starts no more runs. Those that it has started go on.", Final: true},
}

// scheduleView is a schedule with what can be done with it.
type scheduleView struct {
	admin.Schedule
	Acts    []string
	Recent  []admin.ScheduleStart // the newest first
	Command string
}

func schedulePage(q *request) (*view, error) {
	s, err := q.service.Schedule(q.ctx(), q.path("name"))
	if err != nil {
		return nil, err
	}
	v := &scheduleView{Schedule: s, Command: q.h.command("schedules show", shell(s.Name)), Recent: slices.Clone(s.Recent)}
	slices.Reverse(v.Recent)
	for _, name := range []string{"trigger", "pause", "resume", "backfill", "delete"} {
		if q.mayActOnSchedule(name) && !(name == "pause" && s.Paused) && !(name == "resume" && !s.Paused) {
			v.Acts = append(v.Acts, name)
		}
	}
	return &view{name: "schedule", Title: s.Name, Nav: "schedules", Live: true, Data: v}, nil
}

func (q *request) mayActOnSchedule(verb string) bool {
	return q.who.Role.Allows(admin.RoleAdmin) || verb != "delete" && q.who.Role.Allows(admin.RoleOperator)
}

// scheduleForm asks before something is done with a schedule.
func scheduleForm(q *request) (*ask, error) {
	name, at := q.path("name"), q.path("verb")
	v, ok := scheduleVerbs[at]
	if !ok {
		return nil, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("there is no action %.40q for schedules here", at), "go to the schedule")
	}
	a := &ask{
		Title: v.Name + " " + cut(60, name), Will: v.Will, Final: v.Final, Danger: v.Final, Button: v.Name,
		Command: q.h.command("schedules", at, shell(name)), Back: link(q.h.cfg.Prefix, "schedules", name),
	}
	why := field{Name: "reason", Label: whyInJournal, Flag: "reason"}
	switch at {
	case "pause":
		why.Label = "Why? It is shown beside the schedule, and kept in the journal."
	case "backfill":
		when := "a time as 2026-11-24T08:00, in UTC, or how long ago, as 48h"
		a.Fields = []field{
			{Name: "from", Label: "From", Hint: when, Required: true, Flag: "from"}, {Name: "to", Label: "To, not included", Hint: when, Value: "0s", Required: true, Flag: "to"},
			{Name: "overlap", Label: "If a run is active", Kind: "select", Options: append([]string{""}, admin.Overlaps()...), Hint: "empty: as the schedule says", Flag: "overlap"},
		}
	}
	a.Fields = append(a.Fields, why)
	return a, nil
}

func scheduleActPage(q *request) (*view, error) {
	a, err := scheduleForm(q)
	if err == nil {
		_, err = q.service.Schedule(q.ctx(), q.path("name"))
	}
	if err != nil {
		return nil, err
	}
	return q.asking("schedules", a), nil
}

func actOnSchedule(q *request) (string, *view, error) {
	a, err := scheduleForm(q)
	if err != nil {
		return "", nil, err
	}
	name, at := q.path("name"), q.path("verb")
	return q.answered("schedules", a, func(form url.Values) (string, error) {
		act := admin.ScheduleAction{Verb: at, Reason: strings.TrimSpace(form.Get("reason"))}
		if at == "backfill" {
			fill := &admin.Backfill{Overlap: form.Get("overlap")}
			var err error
			if fill.From, err = admin.ParseTime("from", oneLine(form.Get("from")), q.now); err != nil {
				return "", err
			}
			if fill.To, err = admin.ParseTime("to", oneLine(form.Get("to")), q.now); err != nil {
				return "", err
			}
			act.Fill = fill
		}
		to := link(q.h.cfg.Prefix, "schedules", name)
		if at == "delete" {
			to = link(q.h.cfg.Prefix, "schedules")
		}
		_, err := q.service.ActOnSchedule(q.ctx(), name, act)
		return to + "?did=schedule-" + at, err
	})
}
