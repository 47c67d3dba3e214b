package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func TestRUN13_AfterAPurgeNoKeyOfARunIsLeft(t *testing.T) {
	server, clock, ids := redistest.Start(t), storetest.NewClock(), &storetest.IDs{}
	client, ctx := server.Client(t), context.Background()
	st, err := redisstore.New(client, redisstore.Config{Clock: clock, Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.List(ctx, store.Query{}); err != nil {
		t.Fatal(err)
	}
	for p := range st.Partitions() { // creates the keys about the liveness of sessions, which belong to no run
		id := ids.Session()
		if err := errors.Join(st.OpenSession(ctx, store.Session{Partition: p, ID: id, TTL: time.Minute}), st.CloseSession(ctx, p, id)); err != nil {
			t.Fatal(err)
		}
	}
	before := slices.Sorted(slices.Values(must(client.Keys(ctx, "*").Result())))

	var logs []*storetest.Log
	for n := range 12 {
		wid := ""
		if n%2 == 0 {
			wid = string(event.NewItemID())
		}
		slot := uint16(n)
		if wid != "" {
			slot = event.SlotOf(wid)
		}
		tags := map[string]string{"long": "a tag that is far too long to be kept beside the other metadata of a run"}
		l := storetest.NewLog(ids, clock, event.NewRunID(clock.Now(), slot), event.Spec{Workflow: orders.Workflow, Queue: orders.Queue, WorkflowID: wid, Tags: tags})
		logs = append(logs, l)
		must(st.Create(ctx, []store.Create{l.Create()}))
		item := store.Item{ID: ids.Item(), Body: []byte(`"x"`)}
		must(st.Deliver(ctx, store.Deliver{Run: l.Run, Item: item}))
		finish(t, st, ids, l, item)
	}
	if err := st.Delete(ctx, logs[0].Run); err != nil {
		t.Fatal(err)
	}
	clock.Advance(store.DefaultRetention + time.Hour)
	purged := 0
	for p := range st.Partitions() {
		n, next, err := st.Purge(ctx, p, 100)
		if err != nil || !next.IsZero() {
			t.Errorf("purge of partition %d: next %v, %v", p, next, err)
		}
		purged += n
	}
	if purged != len(logs) {
		t.Errorf("purged %d runs, want %d", purged, len(logs))
	}
	if diff := cmp.Diff(before, slices.Sorted(slices.Values(must(client.Keys(ctx, "*").Result())))); diff != "" {
		t.Errorf("keys (-before the runs +after their purge):\n%s", diff)
	}
}

// finish claims a run with a session, closes the session, and ends the run with a second session.
func finish(t testing.TB, st *redisstore.Store, ids *storetest.IDs, l *storetest.Log, item store.Item) {
	t.Helper()
	ctx, p := context.Background(), int(l.Run.Slot())%st.Partitions()
	var fence store.Fence
	for _, id := range []store.SessionID{ids.Session(), ids.Session()} {
		s := store.Session{Partition: p, ID: id, TTL: time.Minute, Routes: []store.Route{orders}}
		if err := st.OpenSession(ctx, s); err != nil {
			t.Fatal(err)
		}
		fence = must(st.ClaimRun(ctx, p, id, ids.Token(), l.Run)).Fence
		if err := st.SetStepData(ctx, l.Run, fence, "key", []byte("x"), false); err != nil {
			t.Fatal(err)
		}
		if fence.Epoch == 1 {
			if err := st.CloseSession(ctx, p, id); err != nil {
				t.Fatal(err)
			}
			continue
		}
		defer func() {
			if err := st.CloseSession(ctx, p, id); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := st.Publish(ctx, l.Run, fence, []store.Publication{{Stream: "a", Body: []byte("x"), Writer: "w", Nth: 1}}); err != nil {
		t.Fatal(err)
	}
	c := l.Commit(fence, append(l.Receive(item), l.End(event.StatusFailed)...)...)
	c.Effect, c.Status, c.Consume, c.ConsumeLast = store.EffectFinish, event.StatusFailed, 1, item.ID
	c.Publish = []store.Publication{{Stream: "b:c", Body: []byte("x")}, {Stream: "d", Close: true}, {Stream: "a", Drop: true}}
	if answer := must(st.Commit(ctx, []store.Commit{c})); answer[0].Err != nil {
		t.Fatal(answer[0].Err)
	}
}
