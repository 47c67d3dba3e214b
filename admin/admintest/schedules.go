package admintest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// yearly is a timing without ticks during a test. A schedule with this timing can be triggered and
// backfilled.
const yearly = "0 0 1 1 * Europe/Zurich"

// schedule creates a schedule that starts runs with an input.
func (s *Scene) schedule(name, what string) {
	s.Helper()
	n := admin.NewSchedule{Name: name, Timing: admin.Timing{When: yearly}, Workflow: Workflow, Input: Input(what), Tags: map[string]string{"by": "clock"}}
	if got, err := s.Service.PutSchedule(s.ctx(), n); err != nil || got.Name != name || got.Verb != "create" {
		s.Fatalf("schedule %q: got %+v, %v", name, got, err)
	}
}

// shown waits until a schedule satisfies fits, and returns it.
func (s *Scene) shown(name, what string, fits func(admin.Schedule) bool) admin.Schedule {
	s.Helper()
	ctx := s.ctx()
	for {
		got, err := s.Service.Schedule(ctx, name)
		if err != nil {
			s.Fatalf("schedule %q, until it is %s: %v", name, what, err)
		}
		run, err := s.Direct.Run(ctx, got.Run)
		if err != nil {
			s.Fatal(err)
		}
		if got, err = s.Service.Schedule(ctx, name); err == nil && fits(got) { // the result contains at least the events of the log
			return got
		}
		for _, err := range s.Direct.Follow(ctx, run.ID, admin.EventFilter{From: run.Events + 1}) {
			if err != nil {
				s.Fatalf("schedule %q does not become %s: %+v", name, what, got)
			}
			break
		}
	}
}

func makesSchedules(s *Scene) {
	names := []string{"nightly", "a/b", "..", "\x1b[31m", "count", "é \u202e", "50%"}
	for _, name := range names {
		s.schedule(name, "good")
		got := s.shown(name, "served", func(i admin.Schedule) bool { return !i.Next.IsZero() })
		want := time.Date(got.Next.Year(), 12, 31, 23, 0, 0, 0, time.UTC) // midnight in Zurich
		if got.Name != name || got.When != yearly || got.Workflow != Workflow || got.Queue == "" || !got.Next.Equal(want) || got.Run == "" || got.Unserved {
			s.Errorf("%q: got %+v", name, got)
		}
		if len(got.Ticks) != 10 || !got.Ticks[0].Equal(got.Next) || got.Ticks[9].Year() != got.Next.Year()+9 {
			s.Errorf("%q: got the ticks %v", name, got.Ticks)
		}
		direct, err := s.Direct.Schedule(s.ctx(), name)
		if err != nil {
			s.Fatal(err)
		}
		same(s, name, got, direct)
	}
	listed := map[string]int{}
	for f, n := (admin.ScheduleFilter{Limit: 2}), 0; ; n++ {
		page, err := s.Service.Schedules(s.ctx(), f)
		if err != nil || len(page.Schedules) > 2 || n > 100 {
			s.Fatalf("page %d: got %+v, %v", n, page, err)
		}
		for i := range page.Schedules {
			listed[page.Schedules[i].Name]++
			if len(page.Schedules[i].Ticks) > 0 {
				s.Errorf("a list foretells ticks: %+v", page.Schedules[i])
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	for _, name := range names {
		if listed[name] != 1 {
			s.Errorf("schedule %q is listed %d times", name, listed[name])
		}
	}
}

func controlsSchedules(s *Scene) {
	const name = "controlled"
	s.schedule(name, "good")
	act := func(a admin.ScheduleAction) admin.ScheduleActed {
		s.Helper()
		got, err := s.Service.ActOnSchedule(s.ctx(), name, a)
		if err != nil || got.Name != name || got.Verb != a.Verb {
			s.Errorf("%s: got %+v, %v", a.Verb, got, err)
		}
		return got
	}
	act(admin.ScheduleAction{Verb: "pause", Reason: "holidays <&>"})
	if got := s.shown(name, "paused", func(i admin.Schedule) bool { return i.Paused }); got.Note != "holidays <&>" || !got.Next.IsZero() || got.Ticks != nil {
		s.Errorf("paused: got %+v", got)
	}
	ref := act(admin.ScheduleAction{Verb: "trigger"}).Run
	started := s.shown(name, "triggered", func(i admin.Schedule) bool { return i.Started == 1 })
	for e, err := range s.Direct.Follow(s.ctx(), started.Run, admin.EventFilter{}) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Type == "child_completed" && e.Next == ref { // the child has been created, so the run exists
			break
		}
	}
	if r, err := s.Service.Wait(s.ctx(), ref, time.Minute); err != nil || r.Status != "completed" || r.Tags["by"] != "clock" || string(r.Input) != string(Input("good")) {
		s.Errorf("trigger: got %+v, %v", r, err)
	}
	act(admin.ScheduleAction{Verb: "resume"})
	if got := s.shown(name, "resumed", func(i admin.Schedule) bool { return !i.Paused }); got.Note != "" || got.Next.IsZero() {
		s.Errorf("resumed: got %+v", got)
	}
	act(admin.ScheduleAction{Verb: "update", Timing: &admin.Timing{When: "0 12 1 1 *", Overlap: "allow", CatchUpMs: 60_000, JitterMs: 1000}, Key: "any"})
	got := s.shown(name, "updated", func(i admin.Schedule) bool { return i.When == "0 12 1 1 *" })
	if got.Overlap != "allow" || got.CatchUpMs != 60_000 || got.JitterMs != 1000 || got.Workflow != Workflow || got.Next.Hour() != 12 {
		s.Errorf("updated: got %+v", got)
	}
	fill := &admin.Backfill{From: time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC), To: time.Date(2022, 1, 1, 12, 0, 0, 0, time.UTC), Overlap: "queue"}
	act(admin.ScheduleAction{Verb: "backfill", Fill: fill, Key: "any"})
	got = s.shown(name, "filled", func(i admin.Schedule) bool { return i.Started == 3 && len(i.Backfills) == 0 })
	var ticks []string
	for _, r := range got.Recent {
		if r.Tick.Year() < 2025 {
			ticks = append(ticks, r.Tick.Format(time.RFC3339))
		}
	}
	same(s, "ticks that were filled", ticks, []string{"2020-01-01T12:00:00Z", "2021-01-01T12:00:00Z"})
	act(admin.ScheduleAction{Verb: "delete", Key: "any"})
	_, err := s.Service.Schedule(s.ctx(), name)
	problem(s, "a schedule that was deleted", err, http.StatusNotFound, admin.CodeNotFound)
	page, err := s.Service.Schedules(s.ctx(), admin.ScheduleFilter{Limit: 1000})
	if err != nil || slices.ContainsFunc(page.Schedules, func(i admin.Schedule) bool { return i.Name == name }) {
		s.Errorf("a schedule that was deleted is listed: %+v, %v", page, err)
	}
	if r, err := s.Service.Run(s.ctx(), ref); err != nil || r.Status != "completed" {
		s.Errorf("what a schedule has started: %+v, %v", r, err)
	}
	s.schedule(name, "bad") // the name can be used again
}

func refusesSchedules(s *Scene) {
	s.schedule("refuses", "good")
	put := func(change func(n *admin.NewSchedule)) error {
		n := admin.NewSchedule{Name: "refused", Timing: admin.Timing{When: yearly}, Workflow: Workflow, Input: Input("good")}
		change(&n)
		_, err := s.Service.PutSchedule(s.ctx(), n)
		return err
	}
	for what, change := range map[string]func(n *admin.NewSchedule){
		"no name":           func(n *admin.NewSchedule) { n.Name = "" },
		"a long name":       func(n *admin.NewSchedule) { n.Name = strings.Repeat("x", 300) },
		"no workflow":       func(n *admin.NewSchedule) { n.Workflow = "" },
		"the runtime's own": func(n *admin.NewSchedule) { n.Workflow = "flowgen.schedule" },
		"no time":           func(n *admin.NewSchedule) { n.When = "" },
		"a bad time":        func(n *admin.NewSchedule) { n.When = "61 * * * *" },
		"a bad zone":        func(n *admin.NewSchedule) { n.When = "1 * * * * Mars/Olympus" },
		"a bad overlap":     func(n *admin.NewSchedule) { n.Overlap = "never" },
		"a short catch-up":  func(n *admin.NewSchedule) { n.CatchUpMs = 1 },
		"a long catch-up":   func(n *admin.NewSchedule) { n.CatchUpMs = 1 << 62 },
		"a negative jitter": func(n *admin.NewSchedule) { n.JitterMs = -1 },
		"no JSON":           func(n *admin.NewSchedule) { n.Input = admin.Payload("{") },
		"a bad tag":         func(n *admin.NewSchedule) { n.Tags = map[string]string{"\x00": "x"} },
		"a bad queue":       func(n *admin.NewSchedule) { n.Queue = "\x00" },
	} {
		problem(s, "a schedule of "+what, put(change), http.StatusBadRequest, admin.CodeInput)
	}
	past := time.Now().Add(-time.Hour)
	for what, a := range map[string]admin.ScheduleAction{
		"no action":                {},
		"an unknown action":        {Verb: "explode"},
		"a reason of a trigger":    {Verb: "trigger", Reason: strings.Repeat("x", 1025)},
		"a long reason":            {Verb: "pause", Reason: strings.Repeat("x", 5000)},
		"an update of nothing":     {Verb: "update"},
		"a bad update":             {Verb: "update", Timing: &admin.Timing{When: "never"}},
		"a timing of a pause":      {Verb: "pause", Timing: &admin.Timing{When: yearly}},
		"a backfill of nothing":    {Verb: "backfill"},
		"a backfill of a pause":    {Verb: "pause", Fill: &admin.Backfill{From: past, To: past.Add(time.Minute)}},
		"a backfill backwards":     {Verb: "backfill", Fill: &admin.Backfill{From: past, To: past.Add(-time.Minute)}},
		"a backfill to come":       {Verb: "backfill", Fill: &admin.Backfill{From: past.Add(2 * time.Hour), To: past.Add(3 * time.Hour)}},
		"a backfill that overlaps": {Verb: "backfill", Fill: &admin.Backfill{From: past, To: past.Add(time.Minute), Overlap: "never"}},
	} {
		_, err := s.Service.ActOnSchedule(s.ctx(), "refuses", a)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	for _, verb := range []string{"pause", "resume", "trigger"} {
		_, err := s.Service.ActOnSchedule(s.ctx(), "refuses", admin.ScheduleAction{Verb: verb, Key: "k"})
		problem(s, verb+" with a key", err, http.StatusNotImplemented, admin.CodeUnsupported)
	}
	for _, name := range []string{"nobody", "refused"} {
		_, err := s.Service.Schedule(s.ctx(), name)
		problem(s, "schedule "+name, err, http.StatusNotFound, admin.CodeNotFound)
		_, err = s.Service.ActOnSchedule(s.ctx(), name, admin.ScheduleAction{Verb: "trigger"})
		problem(s, "trigger "+name, err, http.StatusNotFound, admin.CodeNotFound)
	}
	for _, f := range []admin.ScheduleFilter{{Limit: -1}, {Limit: 1001}, {Cursor: "!"}} {
		_, err := s.Service.Schedules(s.ctx(), f)
		problem(s, fmt.Sprintf("list by %+v", f), err, http.StatusBadRequest, admin.CodeInput)
	}
}
