package storetest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func ExampleClock() {
	clock := storetest.NewClock()
	begin := clock.Now()
	clock.AfterFunc(24*time.Hour, func() { fmt.Println("a day has passed:", clock.Now().Sub(begin)) })
	clock.Advance(time.Hour)
	fmt.Println("an hour has passed")
	clock.Advance(30 * 24 * time.Hour)
	// Output:
	// an hour has passed
	// a day has passed: 24h0m0s
}

// A Log makes the same frames as the runtime. Tests of stores, and of programs that read stores,
// therefore do not need the runtime.
func ExampleLog() {
	ctx, clock, ids := context.Background(), storetest.NewClock(), &storetest.IDs{}
	s := memstore.NewWith(memstore.Config{Clock: clock})
	defer s.Close()

	log := storetest.NewLog(ids, clock, ids.Run(clock.Now(), 0), event.Spec{Workflow: "orders.fulfil"})
	_, err := s.Create(ctx, []store.Create{log.Create()})
	if err != nil {
		fmt.Println(err)
		return
	}
	session := store.Session{ID: ids.Session(), TTL: time.Minute}
	if err := s.OpenSession(ctx, session); err != nil {
		fmt.Println(err)
		return
	}
	claimed, err := s.ClaimRun(ctx, 0, session.ID, ids.Token(), log.Run)
	if err != nil {
		fmt.Println(err)
		return
	}
	end := log.Commit(claimed.Fence, log.End(event.StatusCompleted)...)
	end.Effect, end.Status = store.EffectFinish, event.StatusCompleted
	answers, err := s.Commit(ctx, []store.Commit{end})
	if err != nil || answers[0].Err != nil {
		fmt.Println(err, answers[0].Err)
		return
	}
	log.Accept(end)
	fmt.Println(answers[0].N, "frames,", log.State.Seq, "events,", log.State.Status())
	// Output: 2 frames, 3 events, completed
}
