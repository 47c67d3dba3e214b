package storetest

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// debounce keeps the item of the last start, batch keeps the items of all starts.
var (
	debounce = store.Gather{Quiet: 10 * time.Second, Most: 25 * time.Second}
	batch    = store.Gather{Keep: true, Most: 10 * time.Second, Full: 3}
)

// gathering returns a start that shares a run with other starts of the key, and the log of the run
// that it creates if no run collects starts of that key.
func (h *harness) gathering(g store.Gather, key string) (*Log, store.Create) {
	return h.gatheringWith(g, key, nil)
}

// gatheringWith is gathering for a run with tags.
func (h *harness) gatheringWith(g store.Gather, key string, tags map[string]string) (*Log, store.Create) {
	g.Key = h.workflowID(key)
	l := NewLog(h.ids, h.clock, h.ids.Run(h.clock.Now(), event.SlotOf(g.Key)), event.Spec{Workflow: orders.Workflow, Queue: orders.Queue, Tags: tags})
	c := l.Create()
	c.Gather, c.Items = &g, []store.Item{h.item()}
	return l, c
}

// gathers starts a run that collects starts, and fails the test if the start joins an existing run.
func (h *harness) gathers(g store.Gather, key string) (*Log, store.Create) {
	h.Helper()
	l, c := h.gathering(g, key)
	h.equal("answer to a start that none gathers", h.create(c), store.Created{Run: l.Run, New: true})
	return l, c
}

// joins fails the test unless a start joins run l. It returns the start.
func (h *harness) joins(l *Log, g store.Gather, key string) store.Create {
	h.Helper()
	_, c := h.gathering(g, key)
	h.equal("answer to a start that joins", h.create(c), store.Created{Run: l.Run})
	return c
}

var gatherBehaviors = []behavior{
	{"L12_AStartJoinsOnce", func(h *harness) {
		for _, g := range []store.Gather{debounce, batch} {
			l, first := h.gathers(g, "doc")
			second := h.joins(l, g, "doc")
			again := func() {
				h.unchanged("the same starts", func() {
					h.equal("answer to the first", h.create(first), store.Created{Run: l.Run, New: true})
					h.equal("answer to the second", h.create(second), store.Created{Run: l.Run})
				})
			}
			again()
			h.clock.Advance(time.Second)
			again()
			h.clock.Advance(10 * time.Second)
			s := h.session()
			fence := h.own(s, l)
			again()
			other, third := h.gathers(g, "doc")
			fourth := h.joins(other, g, "doc")
			again()
			items := h.load(l.Run).Inbox
			h.commit(l, consuming(l.Commit(fence, l.Receive(items...)...), items...))
			h.finish(l, fence, event.StatusCompleted)
			again()
			h.unchanged("later starts", func() {
				h.equal("answer to the third", h.create(third), store.Created{Run: other.Run, New: true})
				h.equal("answer to the fourth", h.create(fourth), store.Created{Run: other.Run})
			})
			h.clock.Advance(30 * time.Second)
			fence = h.own(s, other)
			items = h.load(other.Run).Inbox
			h.commit(other, consuming(other.Commit(fence, other.Receive(items...)...), items...))
			h.finish(other, fence, event.StatusCompleted)
		}
	}},
	{"L12_NothingJoinsWhatHasBegun", func(h *harness) {
		l, c := h.gathers(debounce, "doc")
		h.clock.Advance(10 * time.Second)
		s := h.session()
		h.own(s, l)
		second, _ := h.gathers(debounce, "doc")
		h.equal("gathers", h.inspect().Gathering, map[string]event.RunID{c.Gather.Key: second.Run})
		h.check("close session", h.store.CloseSession(h.ctx, 0, s)) // the first run waits for a worker again
		h.state(l.Run, store.StateReady)
		h.joins(second, debounce, "doc")
		h.equal("inbox of the first", h.load(l.Run).Inbox, c.Items)
	}},
	{"L12_NothingJoinsWhatWasClaimedOnce", func(h *harness) {
		l, c := h.gathers(debounce, "doc")
		h.clock.Advance(10 * time.Second)
		s := h.session()
		h.own(s, l)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.state(l.Run, store.StateReady)
		second, _ := h.gathers(debounce, "doc")
		h.equal("inbox of the first", h.load(l.Run).Inbox, c.Items)
		h.joins(second, debounce, "doc")
	}},
	{"L12_ARunThatIsReadyGathersUntilItIsClaimed", func(h *harness) {
		l, _ := h.gathers(debounce, "doc")
		h.clock.Advance(10 * time.Second)
		_, err := h.store.Due(h.ctx, 0, 10)
		h.check("due", err)
		h.state(l.Run, store.StateReady)
		c := h.joins(l, debounce, "doc")
		h.state(l.Run, store.StateReady)
		h.own(h.session(), l)
		h.equal("inbox", h.load(l.Run).Inbox, c.Items)
	}},
	{"L12_OnlyTheItemOfTheLastStartIsKept", func(h *harness) {
		l, _ := h.gathers(debounce, "doc")
		h.joins(l, debounce, "doc")
		message := h.deliver(l.Run)
		last := h.joins(l, debounce, "doc")
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{last.Items[0], message})
	}},
	{"L12_TheItemsOfAllStartsAreKeptInOrder", func(h *harness) {
		g := batch
		g.Full = 0
		l, c := h.gathers(g, "mail")
		want := c.Items
		for range 5 {
			want = append(want, h.joins(l, g, "mail").Items...)
		}
		h.holds(l.Run, want...)
		h.clock.Advance(10 * time.Second)
		h.handedTo(h.session(), l, want...)
	}},
	{"L12_ARunIsDueWhenItWasQuietAndAtTheLatestAfterMost", func(h *harness) {
		begun := h.clock.Now()
		l, _ := h.gathers(debounce, "doc")
		due := func(want time.Duration) {
			h.Helper()
			h.state(l.Run, store.StateParked)
			h.equal("due", h.record(l.Run).Due, begun.Add(want))
			h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time{l.Run: begun.Add(want)})
		}
		due(10 * time.Second)
		h.clock.Advance(9 * time.Second)
		h.joins(l, debounce, "doc")
		due(19 * time.Second)
		h.clock.Advance(9 * time.Second)
		h.joins(l, debounce, "doc")
		due(25 * time.Second)
		h.clock.Advance(5 * time.Second)
		h.joins(l, debounce, "doc")
		due(25 * time.Second)
		s := h.session()
		h.equal("claimed too early", h.claim(s, 10), []store.ClaimedRun(nil))
		h.clock.Advance(2 * time.Second)
		h.own(s, l)
	}},
	{"L12_AStartMayWaitForQuietForEver", func(h *harness) {
		g := store.Gather{Quiet: time.Second}
		l, _ := h.gathers(g, "doc")
		for range 100 {
			h.clock.Advance(900 * time.Millisecond)
			h.joins(l, g, "doc")
		}
		h.state(l.Run, store.StateParked)
		h.clock.Advance(time.Second)
		h.own(h.session(), l)
	}},
	{"L12_AFullRunIsReadyAndGathersNoMore", func(h *harness) {
		l, _ := h.gathers(batch, "mail")
		h.joins(l, batch, "mail")
		h.state(l.Run, store.StateParked)
		last := h.joins(l, batch, "mail")
		h.state(l.Run, store.StateReady)
		h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time(nil))
		second, _ := h.gathers(batch, "mail")
		h.state(second.Run, store.StateParked)
		h.unchanged("the start that made it full", func() { h.equal("answer", h.create(last), store.Created{Run: l.Run}) })
		h.own(h.session(), l)
	}},
	{"L12_ARunThatOneStartFillsIsReadyAtOnce", func(h *harness) {
		g := batch
		g.Full = 1
		l, c := h.gathers(g, "mail")
		h.state(l.Run, store.StateReady)
		h.equal("gathers", h.inspect().Gathering, map[string]event.RunID(nil))
		h.gathers(batch, "mail")
		h.handedTo(h.session(), l, c.Items...)
	}},
	{"L12_ARunIsReadyBeforeItsTimeIfItBecomesFull", func(h *harness) {
		l, _ := h.gathers(batch, "mail")
		h.clock.Advance(10 * time.Second)
		_, err := h.store.Due(h.ctx, 0, 10)
		h.check("due", err)
		h.joins(l, batch, "mail")
		h.joins(l, batch, "mail")
		h.state(l.Run, store.StateReady)
		h.gathers(batch, "mail")
	}},
	{"L12_AMessageDoesNotWakeARunThatGathers", func(h *harness) {
		l, c := h.gathers(debounce, "doc")
		message := h.deliver(l.Run)
		h.state(l.Run, store.StateParked)
		h.joins(l, debounce, "doc")
		h.equal("gathers", h.inspect().Gathering, map[string]event.RunID{c.Gather.Key: l.Run})
		h.equal("number of items", len(h.load(l.Run).Inbox), 2)
		h.equal("message", h.load(l.Run).Inbox[1], message)
	}},
	{"L12_NothingJoinsWhatIsAskedToEnd", func(h *harness) {
		l, c := h.gathers(debounce, "doc")
		cancel := h.item()
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: cancel, Urgent: true})
		h.check("deliver", err)
		h.state(l.Run, store.StateReady)
		h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time(nil))
		h.gathers(debounce, "doc")
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{c.Items[0], cancel})
		h.own(h.session(), l)
	}},
	{"L12_KeysGatherEachForItself", func(h *harness) {
		one, c := h.gathers(debounce, "one")
		two, d := h.gathers(debounce, "two")
		h.joins(one, debounce, "one")
		h.joins(two, debounce, "two")
		h.equal("gathers", h.inspect().Gathering, map[string]event.RunID{c.Gather.Key: one.Run, d.Gather.Key: two.Run})
	}},
	{"L12_ALongKeyIsAKey", func(h *harness) {
		long := string(slices.Repeat([]byte("k"), store.MaxName-64))
		l, _ := h.gathers(debounce, long+"1")
		h.gathers(debounce, long+"2")
		h.joins(l, debounce, long+"1")
	}},
	{"L12_AKeyIsForgottenWithItsRun", func(h *harness) {
		l, c := h.gathers(debounce, "doc")
		h.clock.Advance(10 * time.Second)
		fence := h.own(h.session(), l)
		h.commit(l, consuming(l.Commit(fence, l.Receive(c.Items...)...), c.Items...))
		h.finish(l, fence, event.StatusCompleted)
		h.equal("gathers", h.inspect().Gathering, map[string]event.RunID(nil))
		second, _ := h.gathers(debounce, "doc")
		h.joins(second, debounce, "doc")
	}},
	{"L12_WhatIsNoGatheringIsRefused", func(h *harness) {
		for what, change := range map[string]func(*store.Create){
			"no key":              func(c *store.Create) { c.Gather.Key = "" },
			"no time":             func(c *store.Create) { c.Gather.Quiet, c.Gather.Most = 0, 0 },
			"full with one item":  func(c *store.Create) { c.Gather.Full = 2 },
			"no item":             func(c *store.Create) { c.Items = nil },
			"two items":           func(c *store.Create) { c.Items = append(c.Items, h.item()) },
			"a workflow id":       func(c *store.Create) { c.WorkflowID = c.Gather.Key },
			"a delay":             func(c *store.Create) { c.Delay = time.Second },
			"a time":              func(c *store.Create) { c.At = h.clock.Now().Add(time.Hour) },
			"a record":            func(c *store.Create) { c.CreatedBy = "record" },
			"a key that is long":  func(c *store.Create) { c.Gather.Key = string(make([]byte, store.MaxName+1)) },
			"less than no time":   func(c *store.Create) { c.Gather.Quiet = -1 },
			"an owner without it": func(c *store.Create) { c.Owner, c.Items = &store.Owner{Session: "s"}, nil },
		} {
			_, c := h.gathering(debounce, "doc")
			change(&c)
			h.unchanged(what, func() { isA[*store.InvalidError](h, what, h.create(c).Err) })
		}
	}},
	{"L12_EachConcurrentStartIsInOneRun", func(h *harness) {
		const starters = 30
		g := store.Gather{Keep: true, Most: time.Minute, Full: 7}
		s := h.session()
		var requests []store.Create
		for range starters {
			_, c := h.gathering(g, "mail")
			requests = append(requests, c)
		}
		answers := make([]store.Created, 2*starters)
		together(2*starters+4, func(i int) { // each start is sent twice
			if i >= 2*starters {
				if _, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 10}); err != nil {
					h.Errorf("claim: %v", err)
				}
				return
			}
			got, err := h.store.Create(h.ctx, requests[i%starters:i%starters+1])
			if err != nil {
				h.Errorf("create: %v", err)
				return
			}
			answers[i] = got[0]
		})
		in := map[event.ItemID]event.RunID{}
		for run, r := range h.inspect().Runs {
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
