package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func ExampleNew() {
	s := memstore.New()
	defer s.Close()

	// A program passes the store to a client, which makes such calls.
	ctx := context.Background()
	run := event.NewRunID(time.Now(), event.SlotOf("order-42"))
	_, err := s.Create(ctx, []store.Create{{Run: run, WorkflowID: "order-42", Frame: []byte("frame"), Seq: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := s.Resolve(ctx, "order-42")
	fmt.Println(found == run, err)
	// Output: true <nil>
}

// With a fake clock the example advances the time by a month without waiting.
func ExampleNewWith() {
	clock := storetest.NewClock()
	s := memstore.NewWith(memstore.Config{Clock: clock, Partitions: 4})
	defer s.Close()

	ctx := context.Background()
	run := event.NewRunID(clock.Now(), 0)
	_, err := s.Create(ctx, []store.Create{{Run: run, Frame: []byte("frame"), Seq: 1, Delay: 30 * 24 * time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	place := func() store.QueueState {
		loaded, _ := s.Load(ctx, []store.Load{{Run: run}})
		return loaded[0].Record.QueueState
	}
	fmt.Println(place())
	clock.Advance(30 * 24 * time.Hour)
	_, err = s.Due(ctx, 0, 10)
	fmt.Println(place(), err)
	// Output:
	// parked
	// ready <nil>
}
