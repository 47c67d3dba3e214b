package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/recipes/nightly"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/google/go-cmp/cmp"
)

// The test proves that each missed night is closed once and in order. By the clock of the store,
// the worker is down for four nights before another worker starts.
func TestNightly_MissedNightsAreClosedOnceAndInOrder(t *testing.T) {
	ctx := limited(t)
	clock := storetest.NewClock() // The clock starts at 03:04:05 UTC on 2 January 2030.
	st := memstore.NewWith(memstore.Config{Clock: clock})
	client := workflow.NewClient(st, quiet)
	closed := make(chan string, 100)
	books := &nightly.Books{Close: func(_ context.Context, night time.Time) error {
		closed <- night.UTC().Format(time.RFC3339)
		return nil
	}}
	stop := nightly.Work(ctx, client, books)
	if err := nightly.Declare(ctx, client, nightly.Nights); err != nil {
		t.Fatal(err)
	}
	first := time.Date(2030, time.January, 3, 1, 30, 0, 0, time.UTC)
	for known := false; !known; { // Wait until the schedule has computed its first night.
		s, err := ops.New(client).Schedules().Get(ctx, "nightly")
		if err != nil && !errors.Is(err, ops.ErrScheduleNotFound) {
			t.Fatal(err)
		}
		known = s.Next.Equal(first)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}

	clock.Advance(4 * 24 * time.Hour)
	stop = nightly.Work(ctx, client, books)
	var got []string
	for len(got) < 4 {
		select {
		case night := <-closed:
			got = append(got, night)
		case <-ctx.Done():
			t.Fatalf("only %q are closed", got)
		}
	}
	want := []string{"2030-01-03T01:30:00Z", "2030-01-04T01:30:00Z", "2030-01-05T01:30:00Z", "2030-01-06T01:30:00Z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("closed nights (-want +got):\n%s", diff)
	}
	if err := errors.Join(stop(), client.Close(), st.Close()); err != nil {
		t.Error(err)
	}
}
