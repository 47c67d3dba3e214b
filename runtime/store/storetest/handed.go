package storetest

import (
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// handed compares the log, inbox and log size that a claim returned with those of Load. It returns
// the claim without them.
func (h *harness) handed(c store.ClaimedRun) store.ClaimedRun {
	h.Helper()
	if c.Loaded != nil {
		want := h.load(c.Run)
		want.Record = store.Record{}
		h.equal("run that the claim hands over", *c.Loaded, want)
		c.Loaded = nil
	}
	if c.Bytes != 0 {
		bytes := 0
		for _, f := range h.load(c.Run).Frames {
			bytes += len(f)
		}
		h.equal("length of the log that a claim tells", c.Bytes, bytes)
		c.Bytes = 0
	}
	return c
}

func (h *harness) handedAll(claimed []store.ClaimedRun) []store.ClaimedRun {
	h.Helper()
	for i := range claimed {
		claimed[i] = h.handed(claimed[i])
	}
	return claimed
}

// handedBehaviors test the run contents that claims return. A store need not return them, so these
// tests may check little. Every other claim of the suite is checked in the same way.
var handedBehaviors = []behavior{
	{"AClaimHandsOverWhatLoadAnswers", func(h *harness) {
		h.start(func(c *store.Create) { c.Priority, c.Retention = -1, time.Hour+time.Nanosecond })
		h.startAs(orders, h.workflowID("order"))
		h.startAs(orders, h.workflowID(strings.Repeat("a long name ", 20)))
		for _, tag := range []string{"short", strings.Repeat("long ", 30)} {
			l := h.newLog(orders, "")
			l.Spec.Tags, l.Spec.Parent, l.Spec.Root = map[string]string{"tag": tag}, h.runID(), h.runID()
			c := l.Create()
			c.CreatedBy = h.ids.Item()
			h.create(c)
		}
		h.deliver(h.start().Run)
		long := h.newLog(orders, "")
		long.Spec.Tags = map[string]string{"long": strings.Repeat("x", 100_000)}
		h.create(long.Create())
		s := h.session()
		for _, c := range h.claim(s, 100) { // handed has checked each of them
			h.check("release", h.store.Release(h.ctx, c.Run, c.Fence))
		}
		for _, c := range h.claim(s, 100) {
			h.check("release", h.store.Release(h.ctx, c.Run, c.Fence))
		}
	}},
	{"AClaimHandsOverARunThatWasContinued", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		next := h.continueRun(l, fence)
		h.own(s, next)
	}},
	{"AClaimRunHandsOverWhatLoadAnswers", func(h *harness) {
		s, l := h.session(), h.start()
		got, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
		h.check("claim run", err)
		h.equal("run", h.handed(got).Run, l.Run)
	}},
	{"AClaimHandsOverARunWithAllItsFrames", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.commit(l, withEffect(l.Commit(fence, l.Work()...), store.EffectYield, event.StatusRunning))
		h.own(s, l)
	}},
}
