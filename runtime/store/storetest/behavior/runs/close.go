package runs

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var closeBehaviors = []behavior{
	{"AfterCloseEveryMethodFails", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Check("close", h.Store.Close())
		h.Check("close again", h.Store.Close())
		fails := func(what string, err error) { h.Helper(); h.Is(what, err, store.ErrClosed) }
		_, err := h.Store.Create(h.Ctx, []store.Create{h.NewLog(suite.Orders, "").Create()})
		fails("create", err)
		fails("open session", h.Store.OpenSession(h.Ctx, store.Session{ID: h.IDs.Session(), TTL: suite.TTL}))
		_, err = h.Store.Heartbeat(h.Ctx, 0, s)
		fails("heartbeat", err)
		_, err = h.Store.Reconcile(h.Ctx, 0, s)
		fails("reconcile", err)
		fails("close session", h.Store.CloseSession(h.Ctx, 0, s))
		_, err = h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Max: 1})
		fails("claim", err)
		_, err = h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
		fails("claim run", err)
		_, err = h.Store.Due(h.Ctx, 0, 1)
		fails("due", err)
		_, err = h.Store.Commit(h.Ctx, []store.Commit{l.Commit(fence, l.Work()...)})
		fails("commit", err)
		fails("release", h.Store.Release(h.Ctx, l.Run, fence))
		_, err = h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: h.Item()})
		fails("deliver", err)
		_, _, err = h.Store.Outbox(h.Ctx, 0, 1)
		fails("outbox", err)
		fails("mark", h.Store.Mark(h.Ctx, 0, []store.Mark{{From: l.Run, ID: h.IDs.Item(), Phase: store.PhaseFresh}}))
		fails("confirm", h.Store.Confirm(h.Ctx, l.Run, h.IDs.Item()))
		_, err = h.Store.Load(h.Ctx, []store.Load{{Run: l.Run}})
		fails("load", err)
		_, err = h.Store.Resolve(h.Ctx, "order")
		fails("resolve", err)
		_, err = h.Store.Wait(h.Ctx, store.Wait{Sessions: []store.WaitSession{{Session: s}}, Until: h.Clock.Now()})
		fails("wait", err)
		fails("watch", h.Store.Watch(h.Ctx, l.Run, 0))
		fails("publish", h.Store.Publish(h.Ctx, l.Run, fence, suite.Bodies("1")))
		_, err = h.Store.ReadStream(h.Ctx, store.ReadStream{Run: l.Run, Stream: "a"})
		fails("read stream", err)
		fails("await stream", h.Store.AwaitStream(h.Ctx, l.Run, "a", 0))
		if lister, ok := store.As[store.Lister](h.Store); ok {
			_, err = lister.List(h.Ctx, store.Query{})
			fails("list", err)
			_, err = lister.Count(h.Ctx, store.Query{})
			fails("count", err)
		}
		if auditor, ok := store.As[store.Auditor](h.Store); ok {
			_, err = auditor.Audit(h.Ctx, l.Run)
			fails("audit", err)
		}
		_, _, err = h.Purger().Purge(h.Ctx, 0, 1)
		fails("purge", err)
		fails("delete", h.Delete(l.Run))
		if inspector, ok := store.As[store.Inspector](h.Store); ok {
			_, err = inspector.Inspect(h.Ctx)
			fails("inspect", err)
		}
	}},
	{"CloseEndsBlockedCalls", func(h *harness) {
		s := h.Session()
		l := h.Start()
		h.Poll(s, suite.Orders)
		var waits []*suite.Pending[store.Woken]
		for range 5 {
			w := suite.WaitFor(s, suite.Orders)
			w.Until = h.Clock.Now().Add(time.Hour)
			waits = append(waits, h.Wait(w), h.Wait(suite.WaitFor(s)))
		}
		var watches []*suite.Pending[struct{}]
		for range 5 {
			watches = append(watches, h.Watch(l.Run, 1))
		}
		var awaits []*suite.Pending[store.StreamPage]
		for range 5 {
			awaits = append(awaits, h.AwaitStream(l.Run, "a", 0))
		}
		h.Check("close", h.Store.Close())
		for _, p := range awaits {
			_, err := p.Result(h.Harness, "await stream")
			h.Is("await stream", err, store.ErrClosed)
		}
		for _, p := range waits {
			_, err := p.Result(h.Harness, "wait")
			h.Is("wait", err, store.ErrClosed)
		}
		for _, p := range watches {
			_, err := p.Result(h.Harness, "watch")
			h.Is("watch", err, store.ErrClosed)
		}
	}},
	{"ACanceledContextStopsAnOperationBeforeItBegins", func(h *harness) {
		ended := h.Ended(suite.Keep(suite.Long))
		h.Clock.Advance(suite.Long)
		ctx, cancel := context.WithCancel(h.Ctx)
		cancel()
		l := h.NewLog(suite.Orders, "")
		c := l.Create()
		h.Unchanged("operations whose context has ended", func() {
			_, err := h.Store.Create(ctx, []store.Create{c})
			h.Is("create", err, context.Canceled)
			h.Is("open session", h.Store.OpenSession(ctx, store.Session{ID: h.IDs.Session(), TTL: suite.TTL}), context.Canceled)
			_, _, err = h.Purger().Purge(ctx, 0, 1)
			h.Is("purge", err, context.Canceled)
			h.Is("delete", h.Purger().Delete(ctx, ended.Run), context.Canceled)
		})
	}},
	{"TheStoreReadsItsClock", func(h *harness) {
		h.Equal("now", h.Store.Clock().Now(), h.Clock.Now())
		h.Clock.Advance(time.Hour)
		h.Equal("now", h.Store.Clock().Now(), h.Clock.Now())
	}},
}
