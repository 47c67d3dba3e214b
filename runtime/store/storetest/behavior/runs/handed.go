package runs

import (
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// handedBehaviors test that the log, inbox and record in the answer of a claim equal those that
// Load returns. Stores may omit them from the answer. The harness compares the answers of all other
// claims in the same way.
var handedBehaviors = []behavior{
	{"AClaimHandsOverWhatLoadAnswers", func(h *harness) {
		h.Start(func(c *store.Create) { c.Priority, c.Retention = -1, time.Hour+time.Nanosecond })
		h.StartAs(suite.Orders, h.WorkflowID("order"))
		h.StartAs(suite.Orders, h.WorkflowID(strings.Repeat("a long name ", 20)))
		for _, tag := range []string{"short", strings.Repeat("long ", 30)} {
			l := h.NewLog(suite.Orders, "")
			l.Spec.Tags, l.Spec.Parent, l.Spec.Root = map[string]string{"tag": tag}, h.RunID(), h.RunID()
			c := l.Create()
			c.CreatedBy = h.IDs.Item()
			h.Create(c)
		}
		h.Deliver(h.Start().Run)
		long := h.NewLog(suite.Orders, "")
		long.Spec.Tags = map[string]string{"long": strings.Repeat("x", 100_000)}
		h.Create(long.Create())
		s := h.Session()
		for _, c := range h.Claim(s, 100) { // Claim has compared each of them with Load
			h.Check("release", h.Store.Release(h.Ctx, c.Run, c.Fence))
		}
		for _, c := range h.Claim(s, 100) {
			h.Check("release", h.Store.Release(h.Ctx, c.Run, c.Fence))
		}
	}},
	{"AClaimHandsOverARunThatWasContinued", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		next := h.ContinueRun(l, fence)
		h.Own(s, next)
	}},
	{"AClaimRunHandsOverWhatLoadAnswers", func(h *harness) {
		s, l := h.Session(), h.Start()
		got, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
		h.Check("claim run", err)
		h.Equal("run", h.Handed(got).Run, l.Run)
	}},
	{"AClaimHandsOverARunWithAllItsFrames", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Commit(l, suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectYield, event.StatusRunning))
		h.Own(s, l)
	}},
}
