package codecs_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// planted creates a run in the store below the codec. input returns the stored form of its input.
func planted(w *flowtest.World, input func(run event.RunID) []byte) *workflow.Run[string] {
	w.T.Helper()
	run, cid := event.NewRunID(w.Store.Clock().Now(), event.RandomSlot()), event.NewCommitID()
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: w.Store.Clock().Now(), Events: []event.Event{{
		Seq: 1, Type: event.RunCreated, Time: w.Store.Clock().Now(), Payload: input(run),
		Spec: &event.Spec{Workflow: careful.Name(), Queue: workflow.DefaultQueue},
	}}})
	flowtest.Order(w.T, err)
	created, err := w.Store.Create(w.Ctx, []store.Create{{
		Run: run, Route: store.Route{Queue: workflow.DefaultQueue, Workflow: careful.Name()}, Frame: frame, CommitID: cid, Seq: 1,
	}})
	if err != nil || created[0].Err != nil {
		w.T.Fatal(err, created)
	}
	return careful.Get(w.Client, run)
}

var careful = flowtest.Flow[string, string]("careful")

// inputOf returns the place of the input of a run.
func inputOf(run event.RunID) store.Place {
	return store.Place{Owner: string(run), Field: event.Part{Type: event.RunCreated, Seq: 1, Name: "payload"}.String()}
}

// TestOPS5_HostileDataBlockARunAndExecuteNothing proves that data which were altered, moved, sealed with
// another secret or decompress to more than is permitted reach no code. The error names the problem.
func TestOPS5_HostileDataBlockARunAndExecuteNothing(t *testing.T) {
	c, err := codec.New(codec.Config{Keys: codec.Keys(flowtest.Key("k1")), MaxSize: 1 << 20})
	flowtest.Order(t, err)
	impostor := flowtest.Key("other")
	impostor.ID = "k1"
	other, err := codec.New(codec.Config{Keys: codec.Keys(impostor)})
	flowtest.Order(t, err)
	keyless, err := codec.New(codec.Config{})
	flowtest.Order(t, err)
	plain := []byte(`{"in":"attack"}`)
	zeros := append(append([]byte(`{"in":"`), bytes.Repeat([]byte("0"), 64<<20)...), `"}`...)
	damaged := func(err error) bool { return errors.As(err, new(*codec.DamagedError)) }
	tests := map[string]struct {
		by    *codec.Codec
		at    func(store.Place) store.Place
		plain []byte
		alter func([]byte) []byte
		words string
		typed func(error) bool
	}{
		"truncated":            {by: c, plain: plain, alter: func(b []byte) []byte { return b[:len(b)-3] }, words: "truncated", typed: damaged},
		"altered":              {by: c, plain: plain, alter: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, words: "not authentic", typed: damaged},
		"of another run":       {by: c, plain: plain, at: func(p store.Place) store.Place { p.Owner = "wrun_0"; return p }, words: "not authentic", typed: damaged},
		"of another field":     {by: c, plain: plain, at: func(p store.Place) store.Place { p.Field = "step_completed/7/payload"; return p }, words: "not authentic", typed: damaged},
		"with another secret":  {by: other, plain: plain, words: "another secret", typed: damaged},
		"a bomb":               {by: keyless, plain: zeros, words: "increase MaxSize", typed: func(err error) bool { return errors.As(err, new(*codec.SizeError)) }},
		"a bomb with a lie":    {by: keyless, plain: zeros, alter: smaller, words: "checksum is wrong", typed: damaged},
		"of a newer release":   {by: c, plain: plain, alter: func(b []byte) []byte { b[1] |= 0x40; return b }, words: "newer release", typed: func(err error) bool { return errors.As(err, new(*codec.VersionError)) }},
		"with an unknown key":  {by: c, plain: plain, alter: func(b []byte) []byte { return bytes.Replace(b, []byte("k1"), []byte("k9"), 1) }, words: "get key k9 of payloads", typed: func(err error) bool { return errors.As(err, new(*codec.KeyError)) }},
		"nothing but the mark": {by: c, plain: plain, alter: func(b []byte) []byte { return b[:1] }, words: "truncated", typed: damaged},
		"not called encrypted": {by: c, plain: plain, alter: func(b []byte) []byte { return append([]byte{b[0], b[1] &^ event.SealedEncrypted}, b[2:]...) }, words: "open payload", typed: damaged},
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		sealing := w.With(c)
		var executed atomic.Int64
		sealing.Work(worker.Config{}, flowtest.As(careful, func(_ workflow.Context, s string) (string, error) {
			executed.Add(1)
			return s, nil
		}))
		runs := map[string]*workflow.Run[string]{}
		for name, tt := range tests {
			runs[name] = planted(sealing, func(run event.RunID) []byte {
				at := inputOf(run)
				if tt.at != nil {
					at = tt.at(at)
				}
				b, err := tt.by.Seal(w.Ctx, at, tt.plain)
				flowtest.Order(t, err)
				if tt.alter != nil {
					b = tt.alter(b)
				}
				return b
			})
		}
		for name, run := range runs {
			sealing.BlockedAs(run, tests[name].words)
			loaded, err := sealing.Client.Store().Load(w.Ctx, []store.Load{{Run: run.ID()}})
			flowtest.Order(t, err)
			if err := errors.Join(loaded[0].Err, loaded[0].Sealed); !tests[name].typed(err) {
				t.Errorf("%s: a read of the run gives %v", name, err)
			}
		}
		if n := executed.Load(); n != 0 {
			t.Errorf("code was executed %d times with hostile data", n)
		}
		good := planted(sealing, func(run event.RunID) []byte {
			b, err := c.Seal(w.Ctx, inputOf(run), []byte(`{"in":"good"}`))
			flowtest.Order(t, err)
			return b
		})
		if got, err := good.Result(w.Ctx); err != nil || got != "good" {
			t.Errorf("the worker no longer executes other runs: %q and %v", got, err)
		}
	})
}

// smaller returns compressed data that claim a size which the codec permits.
func smaller(b []byte) []byte {
	const header = 2 // mark and flags
	end := header
	for b[end]&0x80 != 0 {
		end++
	}
	return append(append(bytes.Clone(b[:header]), 0x80, 0x80, 0x04), b[end+1:]...) // 64 KiB
}

// TestOPS5_AMessageThatWasMovedBlocksItsReceiver proves that the data of an item are bound to the item.
func TestOPS5_AMessageThatWasMovedBlocksItsReceiver(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		c, _ := flowtest.WithKeys(t, "k1")
		sealing := w.With(c)
		run := flowtest.Start(sealing, rotating, "")
		body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Time: w.Store.Clock().Now(), Name: turns.Name(), Payload: []byte(`"stolen"`)})
		flowtest.Order(t, err)
		stolen := event.NewItemID()
		body, err = event.ConvertItem(body, func(b []byte, p event.Part, content []byte) ([]byte, error) {
			return c.AppendSeal(w.Ctx, b, store.Place{Owner: string(stolen), Field: p.String()}, content)
		})
		flowtest.Order(t, err)
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: run.ID(), Item: store.Item{ID: event.NewItemID(), Scope: store.ScopeChain, Body: body}})
		flowtest.Order(t, err)
		var executed atomic.Int64
		sealing.Work(worker.Config{}, rotations()[1], rotate.As(func(_ context.Context, s string) (string, error) {
			executed.Add(1)
			return s, nil
		}))
		sealing.BlockedAs(run, "not authentic")
		if n := executed.Load(); n != 0 {
			t.Errorf("the message was used %d times", n)
		}
	})
}
