package runs

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// collecting returns a start that shares a run with other starts of the key, and the log of the run
// that the start creates if no existing run collects starts of the key.
func (h *harness) collecting(g store.Collect, key string) (*suite.Log, store.Create) {
	return h.GatheringWith(g, key, nil)
}

// collectors starts a run that collects starts. It fails the test if the start joins an existing
// run.
func (h *harness) collectors(g store.Collect, key string) (*suite.Log, store.Create) {
	h.Helper()
	l, c := h.collecting(g, key)
	h.Equal("answer to a start that none gathers", h.Create(c), store.Created{Run: l.Run, New: true})
	return l, c
}

// joins makes a start and returns its request. It fails the test unless the start joins run l.
func (h *harness) joins(l *suite.Log, g store.Collect, key string) store.Create {
	h.Helper()
	_, c := h.collecting(g, key)
	h.Equal("answer to a start that joins", h.Create(c), store.Created{Run: l.Run})
	return c
}

var collectBehaviors = []behavior{
	{"L12_AStartJoinsOnce", func(h *harness) {
		for _, g := range []store.Collect{suite.Debounce, suite.Batch} {
			l, first := h.collectors(g, "doc")
			second := h.joins(l, g, "doc")
			again := func() {
				h.Unchanged("the same starts", func() {
					h.Equal("answer to the first", h.Create(first), store.Created{Run: l.Run, New: true})
					h.Equal("answer to the second", h.Create(second), store.Created{Run: l.Run})
				})
			}
			again()
			h.Clock.Advance(time.Second)
			again()
			h.Clock.Advance(10 * time.Second)
			s := h.Session()
			fence := h.Own(s, l)
			again()
			other, third := h.collectors(g, "doc")
			fourth := h.joins(other, g, "doc")
			again()
			items := h.Load(l.Run).Inbox
			h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(items...)...), items...))
			h.Finish(l, fence, event.StatusCompleted)
			again()
			h.Unchanged("later starts", func() {
				h.Equal("answer to the third", h.Create(third), store.Created{Run: other.Run, New: true})
				h.Equal("answer to the fourth", h.Create(fourth), store.Created{Run: other.Run})
			})
			h.Clock.Advance(30 * time.Second)
			fence = h.Own(s, other)
			items = h.Load(other.Run).Inbox
			h.Commit(other, suite.Consuming(other.Commit(fence, other.Receive(items...)...), items...))
			h.Finish(other, fence, event.StatusCompleted)
		}
	}},
	{"L12_NothingJoinsWhatHasBegun", func(h *harness) {
		l, c := h.collectors(suite.Debounce, "doc")
		h.Clock.Advance(10 * time.Second)
		s := h.Session()
		h.Own(s, l)
		second, _ := h.collectors(suite.Debounce, "doc")
		h.Equal("gathers", h.Inspect().Collecting, map[string]event.RunID{c.Collect.Key: second.Run})
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s)) // the first run is ready again and waits for a worker
		h.State(l.Run, store.StateReady)
		h.joins(second, suite.Debounce, "doc")
		h.Equal("inbox of the first", h.Load(l.Run).Inbox, c.Items)
	}},
	{"L12_NothingJoinsWhatWasClaimedOnce", func(h *harness) {
		l, c := h.collectors(suite.Debounce, "doc")
		h.Clock.Advance(10 * time.Second)
		s := h.Session()
		h.Own(s, l)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.State(l.Run, store.StateReady)
		second, _ := h.collectors(suite.Debounce, "doc")
		h.Equal("inbox of the first", h.Load(l.Run).Inbox, c.Items)
		h.joins(second, suite.Debounce, "doc")
	}},
	{"L12_ARunThatIsReadyGathersUntilItIsClaimed", func(h *harness) {
		l, _ := h.collectors(suite.Debounce, "doc")
		h.Clock.Advance(10 * time.Second)
		_, err := h.Store.Due(h.Ctx, 0, 10)
		h.Check("due", err)
		h.State(l.Run, store.StateReady)
		c := h.joins(l, suite.Debounce, "doc")
		h.State(l.Run, store.StateReady)
		h.Own(h.Session(), l)
		h.Equal("inbox", h.Load(l.Run).Inbox, c.Items)
	}},
	{"L12_OnlyTheItemOfTheLastStartIsKept", func(h *harness) {
		l, _ := h.collectors(suite.Debounce, "doc")
		h.joins(l, suite.Debounce, "doc")
		message := h.Deliver(l.Run)
		last := h.joins(l, suite.Debounce, "doc")
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{last.Items[0], message})
	}},
	{"L12_TheItemsOfAllStartsAreKeptInOrder", func(h *harness) {
		g := suite.Batch
		g.Full = 0
		l, c := h.collectors(g, "mail")
		want := c.Items
		for range 5 {
			want = append(want, h.joins(l, g, "mail").Items...)
		}
		h.holds(l.Run, want...)
		h.Clock.Advance(10 * time.Second)
		h.handedTo(h.Session(), l, want...)
	}},
	{"L12_ARunIsDueWhenItWasQuietAndAtTheLatestAfterMost", func(h *harness) {
		begun := h.Clock.Now()
		l, _ := h.collectors(suite.Debounce, "doc")
		due := func(want time.Duration) {
			h.Helper()
			h.State(l.Run, store.StateParked)
			h.Equal("due", h.Record(l.Run).Due, begun.Add(want))
			h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time{l.Run: begun.Add(want)})
		}
		due(10 * time.Second)
		h.Clock.Advance(9 * time.Second)
		h.joins(l, suite.Debounce, "doc")
		due(19 * time.Second)
		h.Clock.Advance(9 * time.Second)
		h.joins(l, suite.Debounce, "doc")
		due(25 * time.Second)
		h.Clock.Advance(5 * time.Second)
		h.joins(l, suite.Debounce, "doc")
		due(25 * time.Second)
		s := h.Session()
		h.Equal("claimed too early", h.Claim(s, 10), []store.ClaimedRun(nil))
		h.Clock.Advance(2 * time.Second)
		h.Own(s, l)
	}},
	{"L12_AStartMayWaitForQuietForEver", func(h *harness) {
		g := store.Collect{Quiet: time.Second}
		l, _ := h.collectors(g, "doc")
		for range 100 {
			h.Clock.Advance(900 * time.Millisecond)
			h.joins(l, g, "doc")
		}
		h.State(l.Run, store.StateParked)
		h.Clock.Advance(time.Second)
		h.Own(h.Session(), l)
	}},
	{"L12_AFullRunIsReadyAndGathersNoMore", func(h *harness) {
		l, _ := h.collectors(suite.Batch, "mail")
		h.joins(l, suite.Batch, "mail")
		h.State(l.Run, store.StateParked)
		last := h.joins(l, suite.Batch, "mail")
		h.State(l.Run, store.StateReady)
		h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time(nil))
		second, _ := h.collectors(suite.Batch, "mail")
		h.State(second.Run, store.StateParked)
		h.Unchanged("the start that made it full", func() { h.Equal("answer", h.Create(last), store.Created{Run: l.Run}) })
		h.Own(h.Session(), l)
	}},
	{"L12_ARunThatOneStartFillsIsReadyAtOnce", func(h *harness) {
		g := suite.Batch
		g.Full = 1
		l, c := h.collectors(g, "mail")
		h.State(l.Run, store.StateReady)
		h.Equal("gathers", h.Inspect().Collecting, map[string]event.RunID(nil))
		h.collectors(suite.Batch, "mail")
		h.handedTo(h.Session(), l, c.Items...)
	}},
	{"L12_ARunIsReadyBeforeItsTimeIfItBecomesFull", func(h *harness) {
		l, _ := h.collectors(suite.Batch, "mail")
		h.Clock.Advance(10 * time.Second)
		_, err := h.Store.Due(h.Ctx, 0, 10)
		h.Check("due", err)
		h.joins(l, suite.Batch, "mail")
		h.joins(l, suite.Batch, "mail")
		h.State(l.Run, store.StateReady)
		h.collectors(suite.Batch, "mail")
	}},
	{"L12_AMessageDoesNotWakeARunThatGathers", func(h *harness) {
		l, c := h.collectors(suite.Debounce, "doc")
		message := h.Deliver(l.Run)
		h.State(l.Run, store.StateParked)
		h.joins(l, suite.Debounce, "doc")
		h.Equal("gathers", h.Inspect().Collecting, map[string]event.RunID{c.Collect.Key: l.Run})
		h.Equal("number of items", len(h.Load(l.Run).Inbox), 2)
		h.Equal("message", h.Load(l.Run).Inbox[1], message)
	}},
	{"L12_NothingJoinsWhatIsAskedToEnd", func(h *harness) {
		l, c := h.collectors(suite.Debounce, "doc")
		cancel := h.Item()
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: cancel, Urgent: true})
		h.Check("deliver", err)
		h.State(l.Run, store.StateReady)
		h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time(nil))
		h.collectors(suite.Debounce, "doc")
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{c.Items[0], cancel})
		h.Own(h.Session(), l)
	}},
	{"L12_KeysGatherEachForItself", func(h *harness) {
		one, c := h.collectors(suite.Debounce, "one")
		two, d := h.collectors(suite.Debounce, "two")
		h.joins(one, suite.Debounce, "one")
		h.joins(two, suite.Debounce, "two")
		h.Equal("gathers", h.Inspect().Collecting, map[string]event.RunID{c.Collect.Key: one.Run, d.Collect.Key: two.Run})
	}},
	{"L12_ALongKeyIsAKey", func(h *harness) {
		long := string(slices.Repeat([]byte("k"), store.MaxName-64))
		l, _ := h.collectors(suite.Debounce, long+"1")
		h.collectors(suite.Debounce, long+"2")
		h.joins(l, suite.Debounce, long+"1")
	}},
	{"L12_AKeyIsForgottenWithItsRun", func(h *harness) {
		l, c := h.collectors(suite.Debounce, "doc")
		h.Clock.Advance(10 * time.Second)
		fence := h.Own(h.Session(), l)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(c.Items...)...), c.Items...))
		h.Finish(l, fence, event.StatusCompleted)
		h.Equal("gathers", h.Inspect().Collecting, map[string]event.RunID(nil))
		second, _ := h.collectors(suite.Debounce, "doc")
		h.joins(second, suite.Debounce, "doc")
	}},
	{"L12_WhatIsNoGatheringIsRefused", func(h *harness) {
		for what, change := range map[string]func(*store.Create){
			"no key":              func(c *store.Create) { c.Collect.Key = "" },
			"no time":             func(c *store.Create) { c.Collect.Quiet, c.Collect.Most = 0, 0 },
			"full with one item":  func(c *store.Create) { c.Collect.Full = 2 },
			"no item":             func(c *store.Create) { c.Items = nil },
			"two items":           func(c *store.Create) { c.Items = append(c.Items, h.Item()) },
			"a workflow id":       func(c *store.Create) { c.WorkflowID = c.Collect.Key },
			"a delay":             func(c *store.Create) { c.Delay = time.Second },
			"a time":              func(c *store.Create) { c.At = h.Clock.Now().Add(time.Hour) },
			"a record":            func(c *store.Create) { c.CreatedBy = "record" },
			"a key that is long":  func(c *store.Create) { c.Collect.Key = string(make([]byte, store.MaxName+1)) },
			"less than no time":   func(c *store.Create) { c.Collect.Quiet = -1 },
			"an owner without it": func(c *store.Create) { c.Owner, c.Items = &store.Owner{Session: "s"}, nil },
		} {
			_, c := h.collecting(suite.Debounce, "doc")
			change(&c)
			h.Unchanged(what, func() { suite.IsA[*store.InvalidError](h.Harness, what, h.Create(c).Err) })
		}
	}},
	{"L12_EachConcurrentStartIsInOneRun", func(h *harness) {
		const starters = 30
		g := store.Collect{Keep: true, Most: time.Minute, Full: 7}
		s := h.Session()
		var requests []store.Create
		for range starters {
			_, c := h.collecting(g, "mail")
			requests = append(requests, c)
		}
		answers := make([]store.Created, 2*starters)
		suite.Together(2*starters+4, func(i int) { // 2*starters because each start is sent twice
			if i >= 2*starters {
				if _, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 10}); err != nil {
					h.Errorf("claim: %v", err)
				}
				return
			}
			got, err := h.Store.Create(h.Ctx, requests[i%starters:i%starters+1])
			if err != nil {
				h.Errorf("create: %v", err)
				return
			}
			answers[i] = got[0]
		})
		in := map[event.ItemID]event.RunID{}
		for run, r := range h.Inspect().Runs {
			if len(r.Inbox) > g.Full {
				h.Errorf("run %s has %d items, want %d at most", run, len(r.Inbox), g.Full)
			}
			for _, i := range r.Inbox {
				if in[i.ID] != "" {
					h.Errorf("item %s is in the runs %s and %s", i.ID, in[i.ID], run)
				}
				in[i.ID] = run
			}
		}
		for i, a := range answers {
			if got := in[requests[i%starters].Items[0].ID]; got != a.Run {
				h.Errorf("start %d: got answer %+v, its item is in %q", i, a, got)
			}
		}
	}},
}
