package clock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestNightly_ClosesTheDayBefore(t *testing.T) {
	e := workflowtest.New(t)
	var closed time.Time
	Register(e, &Books{Close: func(day time.Time) error { closed = day; return nil }})
	if _, err := Nightly.Execute(e.Context(), e.Client(), workflow.None{}); err != nil {
		t.Fatal(err)
	}
	if want := workflowtest.Epoch.AddDate(0, 0, -1); !closed.Equal(want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

func TestSchedules_OfTheGuide(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	closed := make(chan time.Time, 100)
	Register(w, &Books{Close: func(day time.Time) error { closed <- day; return nil }})
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	defer func() {
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	for { // The worker creates the schedule that the directive declares.
		_, err := ops.New(client).Schedules().Get(ctx, Nightly.Name())
		if err == nil {
			break
		}
		if !errors.Is(err, ops.ErrScheduleNotFound) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(ReportEach(ctx, client, []string{"north", "south"}), Migrate(ctx, client, func() error { return nil }), Now(ctx, client)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatal("the triggered run did not close the books")
	}
	if err := Show(ctx, client); err != nil {
		t.Fatal(err)
	}
}
