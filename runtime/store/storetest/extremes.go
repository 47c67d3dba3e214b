package storetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The largest and the smallest values that a caller can pass.
var (
	farPast   = time.Unix(math.MinInt64, 0)
	farFuture = time.Unix(math.MaxInt64/2, 0)
	centuries = 280 * 365 * 24 * time.Hour // less than the longest duration
)

const longest = time.Duration(math.MaxInt64)

// extremeBehaviors test durations, times and numbers at the limits of their types. A store must not
// treat them as other values.
var extremeBehaviors = []behavior{
	{"TheLongestRetentionKeepsARun", func(h *harness) {
		for _, d := range []time.Duration{longest, longest - 1, longest - longest%time.Millisecond, longest - time.Millisecond} {
			l := h.ended(keep(d))
			h.equal("retention", h.record(l.Run).Retention, d)
			next := h.purged(0)
			if want := h.record(l.Run).EndedAt.Add(centuries); next.Before(want) {
				h.Fatalf("retention %d ns: next purge at %v, want it after %v", d, next, want)
			}
		}
		h.clock.Advance(centuries)
		h.purged(0)
	}},
	{"TheLongestDelayIsADelay", func(h *harness) {
		for what, change := range map[string]func(*store.Create){
			"the longest delay":             func(c *store.Create) { c.Delay = longest },
			"a start after all times":       func(c *store.Create) { c.At = farFuture },
			"the longest delay, past start": func(c *store.Create) { c.Delay, c.At = longest, farPast },
		} {
			l := h.start(change)
			h.state(l.Run, store.StateParked)
			if due := h.record(l.Run).Due; due.Before(h.clock.Now().Add(centuries)) {
				h.Fatalf("%s: due at %v", what, due)
			}
			_, err := h.store.Due(h.ctx, 0, math.MaxInt)
			h.check("make due runs ready", err)
			h.state(l.Run, store.StateParked)
		}
		h.clock.Advance(centuries)
		h.equal("claimed", h.claim(h.session(orders), 10), []store.ClaimedRun(nil))
	}},
	{"AStartBeforeAllTimesIsNow", func(h *harness) {
		for _, change := range []func(*store.Create){
			func(c *store.Create) { c.At = farPast },
			func(c *store.Create) { c.Delay = -longest },
			func(c *store.Create) { c.At, c.Delay = time.Unix(-1, 0), math.MinInt64 },
		} {
			h.state(h.start(change).Run, store.StateReady)
		}
	}},
	{"ADueTimeAfterAllTimesParksForThatLong", func(h *harness) {
		s := h.session(orders)
		l, fence := h.startOwned(s)
		h.park(l, fence, event.Instant(farFuture))
		if due := h.record(l.Run).Due; due.Before(h.clock.Now().Add(centuries)) {
			h.Fatalf("due at %v", due)
		}
		h.clock.Advance(centuries)
		_, err := h.store.Due(h.ctx, 0, math.MaxInt)
		h.check("make due runs ready", err)
		h.state(l.Run, store.StateParked)
	}},
	{"PrioritiesOf32BitsAreKeptApart", func(h *harness) {
		want := []*Log{}
		for _, p := range []int{math.MaxInt32, math.MaxInt32 - 1, 1, 0, -1, math.MinInt32 + 1, math.MinInt32} {
			want = append([]*Log{h.start(func(c *store.Create) { c.Priority = p })}, want...)
			h.equal("priority", h.record(want[0].Run).Priority, p)
		}
		got := runsOf(h.claim(h.session(orders), len(want)))
		for i, l := range want {
			h.equal("claimed", got[len(got)-1-i], l.Run)
		}
	}},
	{"PrioritiesOfMoreAreRefused", func(h *harness) {
		for _, p := range []int64{math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64} {
			h.unchanged("a refused start", func() {
				c := h.newLog(orders, "").Create()
				c.Priority = int(p)
				isA[*store.InvalidError](h, "create", h.create(c).Err)
			})
		}
	}},
	{"AnyLimitIsALimit", func(h *harness) {
		l := h.ended(keep(long))
		h.clock.Advance(long)
		for _, n := range []int{math.MinInt, -1, 0} {
			purged, _ := h.purge(n)
			h.equal("purged", purged, 0)
			h.equal("claimed", len(h.claim(h.session(), n)), 0)
		}
		purged, _ := h.purge(math.MaxInt)
		h.equal("purged", purged, 1)
		h.gone(l.Run)
		for range 3 {
			h.start()
		}
		got, _, err := h.store.Outbox(h.ctx, 0, math.MaxInt)
		h.check("outbox", err)
		h.equal("records", len(got), 0)
		h.equal("claimed", len(h.claim(h.session(), math.MaxInt)), 3)
	}},
}

// extremeListBehaviors test extreme values in lists.
var extremeListBehaviors = []behavior{
	{"AListTakesAnyLimitAndTime", func(h *harness) {
		logs := h.listed()
		all := h.list(store.Query{})
		h.equal("number of runs", len(all), len(logs))
		for what, q := range map[string]store.Query{
			"largest limit":          {Limit: math.MaxInt},
			"smallest limit":         {Limit: math.MinInt},
			"all times":              {From: farPast, To: farFuture},
			"all times but the last": {To: farFuture},
		} {
			h.equal("list by "+what, h.list(q), all)
		}
		for what, q := range map[string]store.Query{
			"from the end of all times": {From: farFuture},
			"to the begin of all times": {To: farPast},
			"nothing":                   {From: farFuture, To: farPast},
		} {
			h.equal("list "+what, h.list(q), []event.RunID(nil))
			h.equal("count "+what, h.count(q), map[event.Status]int(nil))
		}
	}},
}

// nameBehaviors test names with characters that a store might be unable to keep.
var nameBehaviors = []behavior{
	{"NamesThatAreNoneAreRefused", func(h *harness) {
		for _, bad := range []string{strings.Repeat("x", store.MaxName+1), "a\x00b", "\x00", "\xff", "a\xc3", "\xed\xa0\x80"} {
			for what, change := range map[string]func(*store.Create){
				"queue":          func(c *store.Create) { c.Route.Queue = bad },
				"workflow":       func(c *store.Create) { c.Route.Workflow = bad },
				"tag":            func(c *store.Create) { c.Tags = map[string]string{bad: "x"} },
				"value of a tag": func(c *store.Create) { c.Tags = map[string]string{"x": bad} },
			} {
				h.unchanged("a refused start", func() {
					good, c := h.newLog(orders, "").Create(), h.newLog(orders, "").Create()
					good.Deadline = h.clock.Now().Add(-time.Second) // so that it changes nothing
					change(&c)
					got, err := h.store.Create(h.ctx, []store.Create{good, c, good})
					h.check("create", err)
					refused := as[*store.InvalidError](h, "create with a bad "+what, got[1].Err)
					h.equal("what was refused", refused.What, what)
					h.is("create beside it", got[0].Err, store.ErrStale)
					h.is("create beside it", got[2].Err, store.ErrStale)
				})
			}
			h.unchanged("a refused session", func() {
				for _, c := range []store.Route{{Queue: bad, Workflow: "w"}, {Queue: "q", Workflow: bad}} {
					err := h.store.OpenSession(h.ctx, store.Session{ID: h.ids.Session(), TTL: ttl, Routes: []store.Route{orders, c}})
					isA[*store.InvalidError](h, "open session", err)
				}
			})
		}
	}},
	{"AWorkflowIDMayBeAnyBytes", func(h *harness) {
		for _, odd := range []string{"a\x00b", "a\x00c", "\xff", "\xfe", "a\xc3"} {
			wid := h.workflowID(odd)
			l := h.startAs(orders, wid)
			h.equal("workflow id", h.record(l.Run).WorkflowID, wid)
			got, err := h.store.Resolve(h.ctx, wid)
			h.check("resolve", err)
			h.equal("run of the workflow id", got, l.Run)
		}
	}},
	{"TooManyTagsAreRefused", func(h *harness) {
		h.unchanged("a refused start", func() {
			c := h.newLog(orders, "").Create()
			c.Tags = map[string]string{}
			for i := range 17 {
				c.Tags[fmt.Sprint(i)] = strings.Repeat("x", 1000)
			}
			got, err := h.store.Create(h.ctx, []store.Create{c})
			h.check("create", err)
			refused := as[*store.InvalidError](h, "create with tags of 17 KB", got[0].Err)
			h.equal("what was refused", refused.What, "tags")
		})
	}},
	{"NamesOfTheLargestSizeAreKept", func(h *harness) {
		long := strings.Repeat("é", store.MaxName/2)
		l := h.newLog(store.Route{Queue: long, Workflow: long}, h.workflowID(long[:1000]))
		l.Spec.Tags = map[string]string{long: long}
		h.equal("created", h.create(l.Create()).New, true)
		got := h.record(l.Run)
		h.equal("route", got.Route, store.Route{Queue: long, Workflow: long})
		h.equal("tags", got.Tags, map[string]string{long: long})
	}},
	{"OddNamesAreKept", func(h *harness) {
		odd := " \t\n{}:*?[]'\"\\%=#\u00e9\u2028\ufffd\U0001f600\x7f\x01"
		l := h.newLog(store.Route{Queue: odd, Workflow: odd}, h.workflowID(odd))
		l.Spec.Tags = map[string]string{odd: odd}
		h.equal("created", h.create(l.Create()).New, true)
		got := h.record(l.Run)
		h.equal("route", got.Route, store.Route{Queue: odd, Workflow: odd})
		h.equal("workflow id", got.WorkflowID, h.workflowID(odd))
		h.equal("tags", got.Tags, map[string]string{odd: odd})
		h.equal("claimed", runsOf(h.claim(h.session(got.Route), 1, got.Route)), []event.RunID{l.Run})
	}},
}
