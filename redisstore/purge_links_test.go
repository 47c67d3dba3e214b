package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// linked is a store with runs that refer to each other, and a session that owns them.
type linked struct {
	t     *testing.T
	ctx   context.Context
	st    *redisstore.Store
	clock *storetest.Clock
	ids   *storetest.IDs
	id    store.SessionID
}

func (l *linked) start(wid string, change ...func(*store.Create)) *storetest.Log {
	l.t.Helper()
	spec := event.Spec{Workflow: orders.Workflow, Queue: orders.Queue, WorkflowID: wid}
	log := storetest.NewLog(l.ids, l.clock, event.NewRunID(l.clock.Now(), event.SlotOf(wid)), spec)
	c := log.Create()
	for _, f := range change {
		f(&c)
	}
	if got := must(l.st.Create(l.ctx, []store.Create{c})); got[0].Err != nil {
		l.t.Fatal(got[0].Err)
	}
	return log
}

func (l *linked) claim(log *storetest.Log) store.Fence {
	l.t.Helper()
	return must(l.st.ClaimRun(l.ctx, 0, l.id, l.ids.Token(), log.Run)).Fence
}

func (l *linked) commit(c store.Commit) {
	l.t.Helper()
	if got := must(l.st.Commit(l.ctx, []store.Commit{c})); got[0].Err != nil {
		l.t.Fatal(got[0].Err)
	}
}

// finish claims a run, consumes its inbox and ends it. The last commit sends an outbox record to
// the run to.
func (l *linked) finish(log *storetest.Log, to event.RunID) {
	l.t.Helper()
	fence := l.claim(log)
	items := must(l.st.Load(l.ctx, []store.Load{{Run: log.Run, Inbox: true}}))[0].Inbox
	c := log.Commit(fence, append(log.Receive(items...), log.End(event.StatusFailed)...)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusFailed
	if n := len(items); n > 0 {
		c.Consume, c.ConsumeLast = n, items[n-1].ID
	}
	c.Send = []store.Send{{ID: l.ids.Item(), To: to, Body: []byte(`"done"`)}}
	l.commit(c)
}

// settle relays outbox records until none are left.
func (l *linked) settle(deliver bool) {
	l.t.Helper()
	for {
		records, next, err := l.st.Outbox(l.ctx, 0, 100)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(records) == 0 && next.IsZero() {
			return
		}
		l.clock.Advance(store.Horizon)
		for _, r := range records {
			if deliver && r.Phase == store.PhaseFresh {
				must(l.st.Deliver(l.ctx, store.Deliver{Run: r.To, Item: store.Item{ID: r.ID, Body: r.Body}, Keep: true}))
			}
			if r.Phase == store.PhaseSettled {
				if err := l.st.Confirm(l.ctx, r.To, r.ID); err != nil {
					l.t.Fatal(err)
				}
			}
			if err := l.st.Mark(l.ctx, 0, []store.Mark{{From: r.From, ID: r.ID, Phase: r.Phase}}); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

func (l *linked) purge() (purged int, next time.Time) {
	l.t.Helper()
	for {
		n, next, err := l.st.Purge(l.ctx, 0, 100)
		if err != nil {
			l.t.Fatal(err)
		}
		if purged += n; n == 0 {
			return purged, next
		}
	}
}

func TestRUN13_AfterAPurgeNoKeyOfAChainOrOfAnOutboxIsLeft(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	l := &linked{t: t, ctx: context.Background(), clock: storetest.NewClock(), ids: &storetest.IDs{}, id: "session"}
	l.st = must(redisstore.New(client, redisstore.Config{Clock: l.clock, Partitions: 1}))
	defer l.st.Close()
	session := store.Session{ID: l.id, TTL: 10_000 * time.Hour, Routes: []store.Route{orders}}
	if err := l.st.OpenSession(l.ctx, session); err != nil {
		t.Fatal(err)
	}
	before := must(client.Keys(l.ctx, "*").Result())

	parent := l.start("")
	child := l.start("child", func(c *store.Create) { c.Parent, c.Root, c.CreatedBy = parent.Run, parent.Run, l.ids.Item() })
	createdBy := must(l.st.Load(l.ctx, []store.Load{{Run: child.Run}}))[0].Record.CreatedBy
	chain := []*storetest.Log{parent}
	for range 3 { // each run sends an item before it continues
		last := chain[len(chain)-1]
		c, next := last.Continue(l.claim(last), nil)
		c.Send = []store.Send{{ID: l.ids.Item(), To: child.Run, Body: []byte(`"hello"`)}}
		l.commit(c)
		chain = append(chain, next)
	}
	l.settle(true)
	item := store.Item{ID: l.ids.Item(), Body: []byte(`"x"`)}
	must(l.st.Deliver(l.ctx, store.Deliver{Run: parent.Run, Item: item, Keep: true}))
	canceled := l.start("canceled")
	successor := l.start("canceled", func(c *store.Create) { c.Active, c.Cancel = store.ActiveCancel, store.Item{ID: l.ids.Item()} })
	l.finish(canceled, successor.Run)
	l.finish(successor, parent.Run)
	l.finish(child, parent.Run)
	l.finish(chain[len(chain)-1], child.Run)
	for _, run := range []event.RunID{chain[1].Run, parent.Run, successor.Run, child.Run} {
		if err := l.st.Delete(l.ctx, run); err != nil {
			t.Fatal(err)
		}
	}

	l.clock.Advance(store.DefaultRetention + time.Hour)
	if got, next := l.purge(); got != 2 || !next.IsZero() {
		t.Errorf("with records left: purged %d runs, next at %v, want the two in the middle of the chain", got, next)
	}
	l.settle(false)
	if got, next := l.purge(); got != 3 || !next.IsZero() {
		t.Errorf("with a creation that is not confirmed: purged %d runs, next at %v, want all but the child and the first of the chain", got, next)
	}
	if err := l.st.Confirm(l.ctx, parent.Run, item.ID); err != nil {
		t.Fatal(err)
	}
	if got, next := l.purge(); got != 1 || !next.IsZero() {
		t.Errorf("with the item confirmed: purged %d runs, next at %v, want the first of the chain", got, next)
	}
	if err := l.st.Confirm(l.ctx, child.Run, createdBy); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.purge(); got != 1 {
		t.Errorf("purged %d runs, want the child", got)
	}
	if diff := cmp.Diff(before, must(client.Keys(l.ctx, "*").Result()), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("keys (-before the runs +after their purge):\n%s", diff)
	}
}
