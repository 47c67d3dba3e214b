package codecs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const marker = "MARKER4711"

var (
	pays   = flowtest.AStep[string, string]("pays", shim.Policy{Retry: flowtest.Quick})
	orders = flowtest.Flow[string, string]("orders")
	notes  = workflow.NewTopic[string]("codecs.notes")
	card   = workflow.NewValue[string]("codecs.card")
)

// ordering binds a workflow whose step fails once. The input, the arguments, the failure, the value,
// the message and the result contain the marker.
func ordering() []flowtest.Binding {
	failed := map[string]bool{}
	return []flowtest.Binding{
		pays.As(func(_ context.Context, with string) (string, error) {
			if !failed[with] {
				failed[with] = true
				return "", errors.New("declined: " + with)
			}
			return "paid with " + with, nil
		}),
		flowtest.As(orders, func(ctx workflow.Context, with string) (string, error) {
			card.Set(ctx, with)
			paid, err := pays.Call(ctx, with)
			if err != nil {
				return "", err
			}
			note, err := notes.Receive(ctx)
			return paid + note, err
		}),
	}
}

func TestOPS5_NoUserDataAreInTheStore(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, ordering()...)
		run, err := orders.Start(w.Ctx, w.Client, marker)
		if err != nil {
			t.Fatal(err)
		}
		if err := notes.Send(w.Ctx, run, " "+marker); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(w.Ctx); err != nil || got != "paid with "+marker+" "+marker {
			t.Fatalf("got %q and %v", got, err)
		}
		inspector, ok := store.As[store.Inspector](w.Store)
		if !ok {
			t.Fatalf("%T cannot be inspected", w.Store)
		}
		snap, err := inspector.Inspect(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		sealed := 0
		for _, r := range snap.Runs {
			for _, frame := range r.Frames {
				all.Write(frame)
				if _, err := event.ConvertFrame(frame, func(_ event.Part, content []byte) ([]byte, error) {
					if event.IsSealed(content) {
						sealed++
					}
					return content, nil
				}); err != nil {
					t.Error(err)
				}
			}
		}
		for _, streams := range snap.Streams {
			for name, stream := range streams {
				for _, chunk := range stream.Chunks {
					fmt.Fprintf(&all, "%s %s\n", name, chunk.Body)
				}
			}
		}
		if sealed < 6 || strings.Contains(all.String(), marker) {
			t.Errorf("%d fields are sealed, and the store contains %q", sealed, all.String())
		}
	})
}

// TestOPS5_AProgramWithoutTheCodecBlocksTheRun proves that code never receives sealed data: a worker
// without a codec blocks the run with the name of the key, and a worker with the codec continues it.
func TestOPS5_AProgramWithoutTheCodecBlocksTheRun(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		run, err := orders.Start(w.Ctx, w.Client, marker)
		if err != nil {
			t.Fatal(err)
		}
		bare := workflow.NewClient(w.Store, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		without := worker.New(bare, worker.Config{Name: "without"})
		for _, bind := range ordering() {
			bind(without)
		}
		ctx, stop := context.WithCancel(w.Ctx)
		ended := make(chan error, 1)
		go func() { ended <- without.Run(ctx) }()
		w.BlockedAs(run, "sealed, key k1")
		if _, err := bare.Run(run.ID()).Info(w.Ctx); err != nil {
			t.Errorf("info without the codec: %v", err)
		}
		w.Work(worker.Config{}, ordering()...) // while the other worker lives
		if err := notes.Send(w.Ctx, run, "!"); err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(w.Ctx); err != nil || got != "paid with "+marker+"!" {
			t.Errorf("got %q and %v", got, err)
		}
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
