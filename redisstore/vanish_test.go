package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// onTags is a hook that calls a function once, before the client reads the tags of a run.
type onTags struct {
	redis.Hook
	do atomic.Pointer[func()]
}

func (h *onTags) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *onTags) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "get" && strings.Contains(fmt.Sprint(args[1]), "}1x:") {
			if f := h.do.Swap(nil); f != nil {
				(*f)()
			}
		}
		return next(ctx, cmd)
	}
}

func (h *onTags) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestList_LeavesOutARunThatIsPurgedMeanwhile proves that List omits a run that is purged between
// the read of its metadata and the read of its tags. Long tags are stored in a separate key, which
// is read later.
func TestList_LeavesOutARunThatIsPurgedMeanwhile(t *testing.T) {
	clock, client, hook := storetest.NewClock(), redistest.Shared(t).Client(t), &onTags{}
	client.AddHook(hook)
	st, err := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(), Partitions: 1, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, ids := t.Context(), &storetest.IDs{}
	session := store.Session{ID: ids.Session(), TTL: time.Hour, Routes: []store.Route{{Queue: "default", Workflow: "w"}}}
	if err := st.OpenSession(ctx, session); err != nil {
		t.Fatal(err)
	}
	logs := make([]*storetest.Log, 3)
	for i := range logs {
		l := storetest.NewLog(ids, clock, ids.Run(clock.Now(), 0), event.Spec{
			Workflow: "w", Queue: "default", Tags: map[string]string{"long": strings.Repeat("x", 200)}, Retention: time.Duration(i+1) * time.Hour,
		})
		logs[i] = l
		if _, err := st.Create(ctx, []store.Create{l.Create()}); err != nil {
			t.Fatal(err)
		}
		claimed, err := st.Claim(ctx, store.Claim{Session: session.ID, Token: ids.Token(), Routes: session.Routes, Max: 1})
		if err != nil || len(claimed.Runs) != 1 {
			t.Fatalf("claim: %v, %v", claimed, err)
		}
		c := l.Commit(claimed.Runs[0].Fence, l.End(event.StatusCompleted)...)
		c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
		if done, err := st.Commit(ctx, []store.Commit{c}); err != nil || done[0].Err != nil {
			t.Fatalf("commit: %v, %v", done, err)
		}
	}
	for i, ask := range []func() (int, error){
		func() (int, error) {
			page, err := st.List(ctx, store.Query{})
			return len(page.Runs), err
		},
		func() (int, error) {
			counts, err := st.Count(ctx, store.Query{From: time.UnixMilli(1)}) // a query that cannot be answered from the sizes of sets
			return counts.ByStatus()[event.StatusCompleted], err
		},
		func() (int, error) {
			loaded, err := st.Load(ctx, []store.Load{{Run: logs[2].Run}})
			if err == nil && loaded[0].Err != store.ErrRunNotFound {
				t.Errorf("load: got %v, want ErrRunNotFound", loaded[0].Err)
			}
			return 0, err
		},
	} {
		purge := func() {
			clock.Advance(time.Hour)
			if n, _, err := st.Purge(ctx, 0, 10); n != 1 || err != nil {
				t.Errorf("purge: %d runs, %v", n, err)
			}
		}
		hook.do.Store(&purge)
		if got, err := ask(); err != nil || got != 2-i {
			t.Errorf("question %d while a run is purged: got %d runs, %v, want %d", i, got, err, 2-i)
		}
	}
}
