package storetest

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

var closeBehaviors = []behavior{
	{"AfterCloseEveryMethodFails", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.check("close", h.store.Close())
		h.check("close again", h.store.Close())
		fails := func(what string, err error) { h.Helper(); h.is(what, err, store.ErrClosed) }
		_, err := h.store.Create(h.ctx, []store.Create{h.newLog(orders, "").Create()})
		fails("create", err)
		fails("open session", h.store.OpenSession(h.ctx, store.Session{ID: h.ids.Session(), TTL: ttl}))
		_, err = h.store.Heartbeat(h.ctx, 0, s)
		fails("heartbeat", err)
		_, err = h.store.Reconcile(h.ctx, 0, s)
		fails("reconcile", err)
		fails("close session", h.store.CloseSession(h.ctx, 0, s))
		_, err = h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Max: 1})
		fails("claim", err)
		_, err = h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
		fails("claim run", err)
		_, err = h.store.Due(h.ctx, 0, 1)
		fails("due", err)
		_, err = h.store.Commit(h.ctx, []store.Commit{l.Commit(fence, l.Work()...)})
		fails("commit", err)
		fails("release", h.store.Release(h.ctx, l.Run, fence))
		_, err = h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: h.item()})
		fails("deliver", err)
		_, _, err = h.store.Outbox(h.ctx, 0, 1)
		fails("outbox", err)
		fails("mark", h.store.Mark(h.ctx, 0, []store.Mark{{From: l.Run, ID: h.ids.Item(), Phase: store.PhaseFresh}}))
		fails("confirm", h.store.Confirm(h.ctx, l.Run, h.ids.Item()))
		_, err = h.store.Load(h.ctx, []store.Load{{Run: l.Run}})
		fails("load", err)
		_, err = h.store.Resolve(h.ctx, "order")
		fails("resolve", err)
		_, err = h.store.Wait(h.ctx, store.Wait{Sessions: []store.WaitSession{{Session: s}}, Until: h.clock.Now()})
		fails("wait", err)
		fails("watch", h.store.Watch(h.ctx, l.Run, 0))
		fails("publish", h.store.Publish(h.ctx, l.Run, fence, bodies("1")))
		_, err = h.store.ReadStream(h.ctx, store.ReadStream{Run: l.Run, Stream: "a"})
		fails("read stream", err)
		fails("await stream", h.store.AwaitStream(h.ctx, l.Run, "a", 0))
		if lister, ok := store.As[store.Lister](h.store); ok {
			_, err = lister.List(h.ctx, store.Query{})
			fails("list", err)
			_, err = lister.Count(h.ctx, store.Query{})
			fails("count", err)
		}
		if auditor, ok := store.As[store.Auditor](h.store); ok {
			_, err = auditor.Audit(h.ctx, l.Run)
			fails("audit", err)
		}
		_, _, err = h.purger().Purge(h.ctx, 0, 1)
		fails("purge", err)
		fails("delete", h.delete(l.Run))
		if inspector, ok := store.As[store.Inspector](h.store); ok {
			_, err = inspector.Inspect(h.ctx)
			fails("inspect", err)
		}
	}},
	{"CloseEndsBlockedCalls", func(h *harness) {
		s := h.session()
		l := h.start()
		h.poll(s, orders)
		var waits []*pending[store.Woken]
		for range 5 {
			w := waitFor(s, orders)
			w.Until = h.clock.Now().Add(time.Hour)
			waits = append(waits, h.wait(w), h.wait(waitFor(s)))
		}
		var watches []*pending[struct{}]
		for range 5 {
			watches = append(watches, h.watch(l.Run, 1))
		}
		var awaits []*pending[store.StreamPage]
		for range 5 {
			awaits = append(awaits, h.awaitStream(l.Run, "a", 0))
		}
		h.check("close", h.store.Close())
		for _, p := range awaits {
			_, err := p.result(h, "await stream")
			h.is("await stream", err, store.ErrClosed)
		}
		for _, p := range waits {
			_, err := p.result(h, "wait")
			h.is("wait", err, store.ErrClosed)
		}
		for _, p := range watches {
			_, err := p.result(h, "watch")
			h.is("watch", err, store.ErrClosed)
		}
	}},
	{"ACanceledContextStopsAnOperationBeforeItBegins", func(h *harness) {
		ended := h.ended(keep(long))
		h.clock.Advance(long)
		ctx, cancel := context.WithCancel(h.ctx)
		cancel()
		l := h.newLog(orders, "")
		c := l.Create()
		h.unchanged("operations whose context has ended", func() {
			_, err := h.store.Create(ctx, []store.Create{c})
			h.is("create", err, context.Canceled)
			h.is("open session", h.store.OpenSession(ctx, store.Session{ID: h.ids.Session(), TTL: ttl}), context.Canceled)
			_, _, err = h.purger().Purge(ctx, 0, 1)
			h.is("purge", err, context.Canceled)
			h.is("delete", h.purger().Delete(ctx, ended.Run), context.Canceled)
		})
	}},
	{"TheStoreReadsItsClock", func(h *harness) {
		h.equal("now", h.store.Clock().Now(), h.clock.Now())
		h.clock.Advance(time.Hour)
		h.equal("now", h.store.Clock().Now(), h.clock.Now())
	}},
}
