package runs

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// The largest and smallest values that a caller can pass.
var (
	farPast   = time.Unix(math.MinInt64, 0)
	farFuture = time.Unix(math.MaxInt64/2, 0)
	centuries = 280 * 365 * 24 * time.Hour // almost the longest possible duration, about 292 years
)

const longest = time.Duration(math.MaxInt64)

// extremeBehaviors test durations, times and numbers at the limits of their types. A store must not
// confuse them with other values, for example by an overflow.
var extremeBehaviors = []behavior{
	{"TheLongestRetentionKeepsARun", func(h *harness) {
		for _, d := range []time.Duration{longest, longest - 1, longest - longest%time.Millisecond, longest - time.Millisecond} {
			l := h.Ended(suite.Keep(d))
			h.Equal("retention", h.Record(l.Run).Retention, d)
			next := h.Purged(0)
			if want := h.Record(l.Run).EndedAt.Add(centuries); next.Before(want) {
				h.Fatalf("retention %d ns: next purge at %v, want it after %v", d, next, want)
			}
		}
		h.Clock.Advance(centuries)
		h.Purged(0)
	}},
	{"TheLongestDelayIsADelay", func(h *harness) {
		for what, change := range map[string]func(*store.Create){
			"the longest delay":             func(c *store.Create) { c.Delay = longest },
			"a start after all times":       func(c *store.Create) { c.At = farFuture },
			"the longest delay, past start": func(c *store.Create) { c.Delay, c.At = longest, farPast },
		} {
			l := h.Start(change)
			h.State(l.Run, store.StateParked)
			if due := h.Record(l.Run).Due; due.Before(h.Clock.Now().Add(centuries)) {
				h.Fatalf("%s: due at %v", what, due)
			}
			_, err := h.Store.Due(h.Ctx, 0, math.MaxInt)
			h.Check("make due runs ready", err)
			h.State(l.Run, store.StateParked)
		}
		h.Clock.Advance(centuries)
		h.Equal("claimed", h.Claim(h.Session(suite.Orders), 10), []store.ClaimedRun(nil))
	}},
	{"AStartBeforeAllTimesIsNow", func(h *harness) {
		for _, change := range []func(*store.Create){
			func(c *store.Create) { c.At = farPast },
			func(c *store.Create) { c.Delay = -longest },
			func(c *store.Create) { c.At, c.Delay = time.Unix(-1, 0), math.MinInt64 },
		} {
			h.State(h.Start(change).Run, store.StateReady)
		}
	}},
	{"ADueTimeAfterAllTimesParksForThatLong", func(h *harness) {
		s := h.Session(suite.Orders)
		l, fence := h.StartOwned(s)
		h.Park(l, fence, event.Instant(farFuture))
		if due := h.Record(l.Run).Due; due.Before(h.Clock.Now().Add(centuries)) {
			h.Fatalf("due at %v", due)
		}
		h.Clock.Advance(centuries)
		_, err := h.Store.Due(h.Ctx, 0, math.MaxInt)
		h.Check("make due runs ready", err)
		h.State(l.Run, store.StateParked)
	}},
	{"PrioritiesOf32BitsAreKeptApart", func(h *harness) {
		want := []*suite.Log{}
		for _, p := range []int{math.MaxInt32, math.MaxInt32 - 1, 1, 0, -1, math.MinInt32 + 1, math.MinInt32} {
			want = append([]*suite.Log{h.Start(func(c *store.Create) { c.Priority = p })}, want...)
			h.Equal("priority", h.Record(want[0].Run).Priority, p)
		}
		got := suite.RunsOf(h.Claim(h.Session(suite.Orders), len(want)))
		for i, l := range want {
			h.Equal("claimed", got[len(got)-1-i], l.Run)
		}
	}},
	{"PrioritiesOfMoreAreRefused", func(h *harness) {
		for _, p := range []int64{math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
			h.Unchanged("a refused start", func() {
				c := h.NewLog(suite.Orders, "").Create()
				c.Priority = int(p)
				suite.IsA[*store.InvalidError](h.Harness, "create", h.Create(c).Err)
			})
		}
	}},
	{"AnyLimitIsALimit", func(h *harness) {
		l := h.Ended(suite.Keep(suite.Long))
		h.Clock.Advance(suite.Long)
		for _, n := range []int{math.MinInt, -1, 0} {
			purged, _ := h.Purge(n)
			h.Equal("purged", purged, 0)
			h.Equal("claimed", len(h.Claim(h.Session(), n)), 0)
		}
		purged, _ := h.Purge(math.MaxInt)
		h.Equal("purged", purged, 1)
		h.Gone(l.Run)
		for range 3 {
			h.Start()
		}
		got, _, err := h.Store.Outbox(h.Ctx, 0, math.MaxInt)
		h.Check("outbox", err)
		h.Equal("records", len(got), 0)
		h.Equal("claimed", len(h.Claim(h.Session(), math.MaxInt)), 3)
	}},
}

// extremeListBehaviors test extreme values in lists.
var extremeListBehaviors = []behavior{
	{"AListTakesAnyLimitAndTime", func(h *harness) {
		logs := h.Listed()
		all := h.List(store.Query{})
		h.Equal("number of runs", len(all), len(logs))
		for what, q := range map[string]store.Query{
			"largest limit":          {Limit: math.MaxInt},
			"smallest limit":         {Limit: math.MinInt},
			"all times":              {From: farPast, To: farFuture},
			"all times but the last": {To: farFuture},
		} {
			h.Equal("list by "+what, h.List(q), all)
		}
		for what, q := range map[string]store.Query{
			"from the end of all times": {From: farFuture},
			"to the begin of all times": {To: farPast},
			"nothing":                   {From: farFuture, To: farPast},
		} {
			h.Equal("list "+what, h.List(q), []event.RunID(nil))
			h.Equal("count "+what, h.Count(q), map[event.Status]int(nil))
		}
	}},
}

// nameBehaviors test names with characters that a store might not be able to keep.
var nameBehaviors = []behavior{
	{"NamesThatAreNoneAreRefused", func(h *harness) {
		for _, bad := range []string{strings.Repeat("x", store.MaxName+1), "a\x00b", "\x00", "\xff", "a\xc3", "\xed\xa0\x80"} {
			for what, change := range map[string]func(*store.Create){
				"queue":          func(c *store.Create) { c.Route.Queue = bad },
				"workflow":       func(c *store.Create) { c.Route.Workflow = bad },
				"tag":            func(c *store.Create) { c.Tags = map[string]string{bad: "x"} },
				"value of a tag": func(c *store.Create) { c.Tags = map[string]string{"x": bad} },
			} {
				h.Unchanged("a refused start", func() {
					good, c := h.NewLog(suite.Orders, "").Create(), h.NewLog(suite.Orders, "").Create()
					good.Deadline = h.Clock.Now().Add(-time.Second) // its deadline has passed, so a store that executes it writes nothing
					change(&c)
					got, err := h.Store.Create(h.Ctx, []store.Create{good, c, good})
					h.Check("create", err)
					refused := suite.As[*store.InvalidError](h.Harness, "create with a bad "+what, got[1].Err)
					h.Equal("what was refused", refused.What, what)
					h.Is("create beside it", got[0].Err, store.ErrStale)
					h.Is("create beside it", got[2].Err, store.ErrStale)
				})
			}
			h.Unchanged("a refused session", func() {
				for _, c := range []store.Route{{Queue: bad, Workflow: "w"}, {Queue: "q", Workflow: bad}} {
					err := h.Store.OpenSession(h.Ctx, store.Session{ID: h.IDs.Session(), TTL: suite.TTL, Routes: []store.Route{suite.Orders, c}})
					suite.IsA[*store.InvalidError](h.Harness, "open session", err)
				}
			})
		}
	}},
	{"AWorkflowIDMayBeAnyBytes", func(h *harness) {
		for _, odd := range []string{"a\x00b", "a\x00c", "\xff", "\xfe", "a\xc3"} {
			wid := h.WorkflowID(odd)
			l := h.StartAs(suite.Orders, wid)
			h.Equal("workflow id", h.Record(l.Run).WorkflowID, wid)
			got, err := h.Store.Resolve(h.Ctx, wid)
			h.Check("resolve", err)
			h.Equal("run of the workflow id", got, l.Run)
		}
	}},
	{"TooManyTagsAreRefused", func(h *harness) {
		h.Unchanged("a refused start", func() {
			c := h.NewLog(suite.Orders, "").Create()
			c.Tags = map[string]string{}
			for i := range 17 {
				c.Tags[fmt.Sprint(i)] = strings.Repeat("x", 1000)
			}
			got, err := h.Store.Create(h.Ctx, []store.Create{c})
			h.Check("create", err)
			refused := suite.As[*store.InvalidError](h.Harness, "create with tags of 17 KB", got[0].Err)
			h.Equal("what was refused", refused.What, "tags")
		})
	}},
	{"NamesOfTheLargestSizeAreKept", func(h *harness) {
		long := strings.Repeat("é", store.MaxName/2)
		l := h.NewLog(store.Route{Queue: long, Workflow: long}, h.WorkflowID(long[:1000]))
		l.Spec.Tags = map[string]string{long: long}
		h.Equal("created", h.Create(l.Create()).New, true)
		got := h.Record(l.Run)
		h.Equal("route", got.Route, store.Route{Queue: long, Workflow: long})
		h.Equal("tags", got.Tags, map[string]string{long: long})
	}},
	{"OddNamesAreKept", func(h *harness) {
		odd := " \t\n{}:*?[]'\"\\%=#\u00e9\u2028\ufffd\U0001f600\x7f\x01"
		l := h.NewLog(store.Route{Queue: odd, Workflow: odd}, h.WorkflowID(odd))
		l.Spec.Tags = map[string]string{odd: odd}
		h.Equal("created", h.Create(l.Create()).New, true)
		got := h.Record(l.Run)
		h.Equal("route", got.Route, store.Route{Queue: odd, Workflow: odd})
		h.Equal("workflow id", got.WorkflowID, h.WorkflowID(odd))
		h.Equal("tags", got.Tags, map[string]string{odd: odd})
		h.Equal("claimed", suite.RunsOf(h.Claim(h.Session(got.Route), 1, got.Route)), []event.RunID{l.Run})
	}},
}
