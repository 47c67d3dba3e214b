package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// docks is a limit that the worker of a shop declares.
var docks = limit.New("shop.docks", limit.Config{AtOnce: 3})

func TestOPS1_SchedulesAreMadeShownAndControlled(t *testing.T) {
	s := open(t)
	const hostile = "b\x1b[31m\u202e"
	for _, name := range []string{"nightly", hostile} {
		s.wants(0, nil, nil, "schedules", "create", name, "shop.order", "--when", "30 2 * * * Europe/Zurich", "--overlap", "queue", "--catch-up", "1h", "-i", `{"what":"good"}`, "--tag", "by=clock")
	}
	s.work(func(ctx context.Context, c *workflow.Client) {
		until := func(name string, fits func(schedule.Info) bool) {
			t.Helper()
			for info, err := ops.New(c).Schedules().Get(ctx, name); !fits(info); info, err = ops.New(c).Schedules().Get(ctx, name) {
				if err != nil {
					t.Fatal(err)
				}
				run, err := c.Run(info.Run).Info(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if info, err = ops.New(c).Schedules().Get(ctx, name); err == nil && !fits(info) {
					next(ctx, t, c.Run(info.Run), run.Events)
				}
			}
		}
		triggered := s.flowctl("schedules", "trigger", "nightly")
		ref := workflow.RunID(strings.TrimSpace(triggered.stdout))
		info, err := ops.New(c).Schedules().Get(ctx, "nightly")
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range c.Run(info.Run).Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == event.ChildCompleted && e.Next == ref { // The event proves that the run exists.
				break
			}
		}
		if _, err := orders.Get(c, ref).Result(ctx); err != nil {
			t.Errorf("trigger has printed %q: %v", triggered.stdout, err)
		}
		s.wants(0, nil, nil, "schedules", "pause", hostile, "--reason", "holidays")
		until(hostile, func(i schedule.Info) bool { return i.Paused })
	})
	s.wants(0, []string{"NAME", "nightly", "paused", "holidays", "30 2 * * * Europe/Zurich", hostileWord}, nil, "schedules")
	s.wants(0, []string{"nightly", "queue", "1h0m0s", "runs started   1", "next", "TICK"}, nil, "schedules", "show", "nightly")
	var got admin.Schedule
	if g := s.flowctl("schedules", "show", "nightly", "--json"); json.Unmarshal([]byte(g.stdout), &got) != nil || len(got.Ticks) != 10 || len(got.Recent) != 1 {
		t.Errorf("got %+v of %s", got, g.stdout)
	}
	for i, tick := range got.Ticks {
		zurich, _ := time.LoadLocation("Europe/Zurich")
		if at := tick.In(zurich); at.Hour() != 2 || at.Minute() != 30 || i > 0 && !at.After(got.Ticks[i-1]) {
			t.Errorf("tick %d is at %v", i, at)
		}
	}
	var page admin.SchedulePage
	if g := s.flowctl("schedules", "list", "--limit", "1", "--json"); json.Unmarshal([]byte(g.stdout), &page) != nil || len(page.Schedules) != 1 || page.Cursor == "" {
		t.Fatalf("got %+v of %s", page, g.stdout)
	}
	s.wants(0, []string{"nightly"}, nil, "schedules", "-o", "name", "--cursor", page.Cursor)
	s.wants(0, nil, nil, "schedules", "update", "nightly", "--when", "every 1h")
	s.wants(0, nil, nil, "schedules", "backfill", "nightly", "--from", "48h", "--to", "24h")
	s.wants(0, nil, nil, "schedules", "resume", hostile)
	s.wants(2, nil, []string{"-y"}, "schedules", "delete", "nightly")
	s.wants(124, nil, nil, "schedules", "delete", "nightly", "-y", "--timeout", "20ms")
	s.work(func(context.Context, *workflow.Client) { // Another process may have answered the same request before.
		if g := s.flowctl("schedules", "delete", "nightly", "-y"); g.code != 0 && g.code != 3 {
			t.Errorf("delete: got %+v", g)
		}
	})
	s.wants(3, nil, []string{"not found"}, "schedules", "show", "nightly")
	s.wants(2, nil, []string{"61"}, "schedules", "create", "bad", "shop.order", "--when", "61 * * * *", "-i", `{"what":"good"}`)
	s.wants(2, nil, []string{"when"}, "schedules", "create", "bad", "shop.order")
	s.wants(2, nil, []string{"--from"}, "schedules", "backfill", hostile, "--from", "yesterday")
	s.wants(0, []string{hostileWord}, nil, "__complete", "schedules", "pause", "")
}

// hostileWord is the escaped form of a name with control characters. The completion must use this
// form, because a terminal would interpret the raw form.
const hostileWord = `b\u001b[31m\u202e`

func TestOPS1_LimitsAreListedAndSet(t *testing.T) {
	s := open(t) // The worker of the shop has declared the limit.
	s.wants(0, []string{"NAME", "IN USE", "shop.docks", "declared"}, nil, "pools")
	s.wants(0, nil, nil, "pools", "set", docks.Name(), "8", "--rate", "100", "--per", "1m")
	s.wants(0, []string{"shop.docks", "8", "100/1m0s", "set"}, nil, "pools", docks.Name())
	s.wants(0, []string{docks.Name() + ": paused"}, nil, "pools", "pause", docks.Name())
	s.wants(0, []string{"paused"}, nil, "pools", docks.Name())
	s.wants(0, []string{docks.Name() + ` for key "nobody": paused`}, []string{`key "nobody" of shop.docks was not in use`}, "pools", "pause", docks.Name(), "--key", "nobody")
	s.wants(0, []string{`"unused": true`}, nil, "pools", "pause", docks.Name(), "--key", "nothing", "--json")
	if g := s.flowctl("pools", "reset", docks.Name(), "--key", "nobody"); g.code != 0 || g.stderr != "" {
		t.Errorf("a key that is configured: exit code %d, warned %q; want none", g.code, g.stderr)
	}
	for _, key := range []string{"nobody", "nothing"} { // A reset of the limit does not resume the keys.
		s.wants(0, nil, nil, "pools", "resume", docks.Name(), "--key", key)
	}
	s.wants(0, []string{`"verb": "resume"`}, nil, "pools", "resume", docks.Name(), "--json")
	s.wants(0, nil, nil, "pools", "reset", docks.Name())
	var page admin.PoolPage
	if g := s.flowctl("pools", docks.Name(), "--json"); json.Unmarshal([]byte(g.stdout), &page) != nil || page.Total != 1 || page.Pools[0].AtOnce != 3 || page.Pools[0].Set {
		t.Errorf("got %+v of %s", page, g.stdout)
	}
	s.wants(2, nil, []string{"many"}, "pools", "set", docks.Name(), "many")
	s.wants(2, nil, []string{"atOnce"}, "pools", "set", docks.Name())
	s.wants(3, nil, []string{"not found"}, "pools", "set", "shop.gates", "1")
	s.wants(0, []string{docks.Name()}, nil, "__complete", "pools", "pause", "")
}

func TestEV12_ShowListsWhatARunHasBegun(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"step_", "shop.ship", "completed", "wait_", "verdict", "waiting"}, nil, "show", s.runs["wait"], "--entities")
	g := s.flowctl("show", s.runs["wait"], "--entities", "--open", "-o", "name")
	if !strings.HasPrefix(g.stdout, "wait_") || strings.Count(g.stdout, "\n") != 1 {
		t.Errorf("open entities: got %+v", g)
	}
	s.wants(0, []string{`closed`}, nil, "show", s.runs["bad"], "--entities")
	s.wants(0, []string{s.runs["wait"] + "  waiting"}, nil, "show", "id:order-wait", "--tree")
	s.wants(2, nil, []string{"entities"}, "show", s.runs["wait"], "--entities", "--tree")
}

func TestOPS1_InputsAreCheckedByTheCatalogue(t *testing.T) {
	s := open(t)
	s.work(func(ctx context.Context, c *workflow.Client) { // When it starts, a worker registers its workflows in the catalog.
		for {
			if all, err := ops.New(c).Catalog(ctx, ops.CatalogQuery{}); err != nil {
				t.Fatal(err)
			} else if len(all) == 1 {
				return
			}
		}
	})
	s.wants(0, []string{"WORKFLOW", "shop.order", "default", `{"what":{"type":"string"}}`}, nil, "catalog")
	var page admin.CatalogPage
	if g := s.flowctl("catalog", "shop.order", "--json"); json.Unmarshal([]byte(g.stdout), &page) != nil || len(page.Workflows) != 1 || len(page.Workflows[0].Versions) != 1 {
		t.Errorf("got %+v of %s", page, g.stdout)
	}
	s.wants(3, nil, []string{"no worker has registered workflow shop.other"}, "catalog", "shop.other")
	s.wants(2, nil, []string{"/what is number, want string", "/wat is not known, want one of what"}, "start", "shop.order", "-i", `{"what":3,"wat":"good"}`)
	s.wants(0, []string{"wrun_"}, nil, "start", "shop.order", "-i", `{"what":"good"}`)
	s.wants(0, []string{"wrun_"}, nil, "start", "shop.other", "-i", `[1]`)
	s.wants(0, []string{"shop.order"}, nil, "__complete", "start", "")
}
