package codecs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
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
				if _, err := event.ConvertFrame(frame, func(b []byte, _ event.Part, content []byte) ([]byte, error) {
					if event.IsSealed(content) {
						sealed++
					}
					return append(b, content...), nil
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
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

// TestOPS5_ARunCanBeReadAndNotCopiedWithoutItsKey proves what programs without the key can do: they
// see the events, the type and the code of a failure, and sealed data with the name of the key.
// A rerun copies the data to another run, which requires the key.
func TestOPS5_ARunCanBeReadAndNotCopiedWithoutItsKey(t *testing.T) {
	fails := flowtest.Flow[string, string]("codecs.fails")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(fails, func(_ workflow.Context, in string) (string, error) { return "", errors.New("broken: " + in) }))
		run, err := fails.Start(w.Ctx, w.Client, marker)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(w.Ctx); err == nil || !strings.Contains(err.Error(), "broken: "+marker) {
			t.Fatalf("with the codec: got %v", err)
		}
		other, err := codec.New(codec.Config{Keys: codec.Keys(flowtest.Key("k2"))})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]store.Codec{"no codec": nil, "another key": other} {
			client := workflow.NewClient(w.Store, workflow.ClientConfig{Codec: c, Logger: slog.New(slog.DiscardHandler)})
			h := client.Run(run.ID())
			events, err := h.ReadEvents(w.Ctx, 1, 100)
			if err != nil || len(events) < 3 {
				t.Fatalf("%s: %d events and %v", name, len(events), err)
			}
			first, last := events[0], events[len(events)-1]
			if shown := string(event.Shown(first.Payload)); !strings.Contains(shown, `"key":"k1"`) || strings.Contains(shown, marker) {
				t.Errorf("%s: the input is shown as %s", name, shown)
			}
			if f := last.Failure.Shown(); f == nil || f.Code != event.CodeError || !strings.HasPrefix(f.Message, "sealed, key k1, ") {
				t.Errorf("%s: the failure is shown as %+v", name, f)
			}
			for verb, rerun := range map[string]func() (*workflow.Handle, error){
				"restart": func() (*workflow.Handle, error) { return h.Restart(w.Ctx) },
				"retry":   func() (*workflow.Handle, error) { return h.Retry(w.Ctx) },
			} {
				if _, err := rerun(); err == nil || !strings.Contains(err.Error(), "k1") {
					t.Errorf("%s: %s: got %v, want an error that names the key", name, verb, err)
				}
			}
			if _, err := fails.Get(client, run.ID()).Result(w.Ctx); err == nil || !strings.Contains(err.Error(), "k1") {
				t.Errorf("%s: result: got %v, want an error that names the key", name, err)
			}
		}
		if runs := w.List(workflow.Filter{}); len(runs) != 1 {
			t.Errorf("got %d runs, want that nothing was created", len(runs))
		}
	})
}
