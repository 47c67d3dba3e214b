package questions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// approval describes the hook of an order.
func approval(order string) workflow.HookMeta {
	return workflow.HookMeta{
		Title: "Approve " + order, Description: "It is above the limit.\nLook at the customer, too: <Grüße>",
		Form:      json.RawMessage(`{"type":"integer","title":"cents","maximum":1e6}`),
		Answerers: []string{"group:controlling", "ada"}, Labels: map[string]string{"order": order, "": "empty"},
	}
}

// approves is a workflow that opens a described hook, takes a payload from it and closes it. The
// token of the hook is the input if the input begins with "own".
var approves = flowtest.Flow[string, int]("approves")

func approving(describe func(order string) workflow.HookMeta) flowtest.Binding {
	return flowtest.As(approves, func(ctx workflow.Context, order string) (int, error) {
		opts := []workflow.HookOption{workflow.Describe(describe(order))}
		if strings.HasPrefix(order, "own") {
			opts = append(opts, workflow.Token(order))
		}
		plain, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		hook, err := flowtest.Paid.Open(ctx, opts...)
		if err != nil {
			return 0, err
		}
		flowtest.Token.Set(ctx, hook.Token())
		n, err := hook.Receive(ctx)
		hook.Dispose(ctx)
		if err != nil {
			return 0, err
		}
		more, err := plain.Receive(ctx)
		return n + more, err
	})
}

// sinceOpened is an option of cmp that ignores the time at which a hook was opened.
var sinceOpened = cmpopts.IgnoreFields(workflow.HookInfo{}, "OpenedAt")

func TestFLOW18_OperatorsAndWhoeverHasTheTokenReadWhatAHookSaysOfItself(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, approving(approval))
		for _, order := range []string{"order-7", "own-order-7"} {
			run := flowtest.Start(w, approves, order)
			tok := w.TokenOf(run)
			want := workflow.HookInfo{Hook: "paid", Token: tok, Run: run.ID(), Meta: approval(order)}
			look := func(what, tok string, want workflow.HookInfo) {
				t.Helper()
				got, err := w.Client.Hook(w.Ctx, tok)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			look("open", tok, want)
			created := flowtest.Filter(w.Log(run), event.HookCreated)
			plain := workflow.HookInfo{Hook: "paid", Token: created[0].Token, Run: run.ID()}
			look("one that says nothing", plain.Token, plain)

			listed := []workflow.HookInfo{plain, want}
			for i := range listed {
				listed[i].ID, listed[i].Key, listed[i].Event = created[i].Correlation(run.ID()), created[i].Key, created[i].Seq
			}
			hooks, err := w.Client.Run(run.ID()).Hooks(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(listed, hooks, sinceOpened); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
			if len(hooks) == 2 && (hooks[1].OpenedAt.IsZero() || hooks[1].OpenedAt.Before(hooks[0].OpenedAt)) {
				t.Errorf("opened at %v and %v", hooks[0].OpenedAt, hooks[1].OpenedAt)
			}

			w.Resume(tok, 1)
			w.Reach(run, event.HookDisposed, 1)
			want.Closed, plain.Closed = true, true
			look("closed", tok, want)
			if hooks, err = run.Hooks(w.Ctx); err != nil || len(hooks) != 1 || hooks[0].Token != plain.Token {
				t.Errorf("after one was closed: got %v, %v", hooks, err)
			}
			w.Resume(plain.Token, 2)
			if got := flowtest.Result(w, run); got != 3 {
				t.Errorf("got %d, want 3", got)
			}
			look("ended", tok, want)
			look("one that says nothing, ended", plain.Token, plain)
			if hooks, err := run.Hooks(w.Ctx); err != nil || len(hooks) != 0 {
				t.Errorf("after the end: got %v, %v", hooks, err)
			}
		}
		for _, tok := range []string{"", "wrun_x", "nobody", string(event.NewRunID(w.Store.Clock().Now(), 1)) + ".0123456789012345678901"} {
			if got, err := w.Client.Hook(w.Ctx, tok); !errors.Is(err, workflow.ErrHookNotFound) || got.Run != "" {
				t.Errorf("token %q: got %v, %v, want ErrHookNotFound", tok, got, err)
			}
		}
		if _, err := w.Client.Run(event.NewRunID(w.Store.Clock().Now(), 1)).Hooks(w.Ctx); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("hooks of no run: %v", err)
		}
	})
}

func TestFLOW18_WhatCannotBeKeptIsRefusedWithATypedErrorBeforeAnythingIsOpened(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for what, m := range map[string]workflow.HookMeta{
		"title of hook paid is too long":        {Title: long},
		"title of hook paid":                    {Title: "\xff"},
		"title of hook paid holds a zero":       {Title: "a\x00b"},
		"description of hook paid":              {Description: "\xff"},
		"description of hook paid is too long":  {Description: strings.Repeat("x", flow.MaxHookMeta+1)},
		"answerer of hook paid":                 {Answerers: []string{"ada", "\xff"}},
		"label of hook paid":                    {Labels: map[string]string{"\xff": "v"}},
		"label k of hook paid":                  {Labels: map[string]string{"k": "\xff"}},
		"label k of hook paid is too long":      {Labels: map[string]string{"k": long}},
		"form of hook paid is not JSON":         {Form: json.RawMessage(`{"type":`)},
		"form of hook paid is not UTF-8":        {Form: json.RawMessage("\"\xff\"")},
		"form of hook paid has half a pair":     {Form: json.RawMessage(`"\ud800"`)},
		"all metadata of hook paid is too long": {Form: json.RawMessage(`"` + strings.Repeat("x", flow.MaxHookMeta-5) + `"`)},
	} {
		t.Run(what, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			w.Work(worker.Config{}, flowtest.As(approves, func(ctx workflow.Context, _ string) (int, error) {
				_, err := flowtest.Paid.Open(ctx, workflow.Describe(m))
				return 0, err
			}))
			run := flowtest.Start(w, approves, "")
			err := flowtest.Failure(w, run)
			var invalid *workflow.InvalidError
			if !errors.As(err, &invalid) || !strings.HasPrefix(what, invalid.What) || len(err.Error()) > 1000 {
				t.Errorf("got %v, want an *InvalidError about the %s", err, what)
			}
			if opened := flowtest.Filter(w.Log(run), event.HookCreated); len(opened) > 0 {
				t.Error("the hook was opened")
			}
		})
	}
	t.Run("as much as there is room for", func(t *testing.T) {
		flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
			most := workflow.HookMeta{Title: long[1:], Form: json.RawMessage(`"` + strings.Repeat("y", flow.MaxHookMeta-1024-len(`{"title":"","form":""}`)) + `"`)}
			w.Work(worker.Config{}, approving(func(string) workflow.HookMeta { return most }))
			run := flowtest.Start(w, approves, "large")
			got, err := w.Client.Hook(w.Ctx, w.TokenOf(run))
			if err != nil || !cmp.Equal(most, got.Meta) {
				t.Errorf("it comes back as a title of %d and a form of %d bytes: %v", len(got.Meta.Title), len(got.Meta.Form), err)
			}
		})
	})
}

// TestFLOW18_CodeThatDescribesAHookOtherwiseGoesOnWithTheOldDescription proves that a changed
// description of a hook does not block open runs. VER1 requires only that the operations are the
// same. The hook keeps its old description.
func TestFLOW18_CodeThatDescribesAHookOtherwiseGoesOnWithTheOldDescription(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{Parked: 1}, approving(approval))
		run := flowtest.Start(w, approves, "order-7")
		tok := w.TokenOf(run)
		first.Stop()
		w.Work(worker.Config{}, countStep, approving(func(string) workflow.HookMeta { return workflow.HookMeta{Title: "Sign"} }))
		w.Resume(tok, 1)
		w.Reach(run, event.HookDisposed, 1) // the new code closes the hook
		info, err := w.Client.Hook(w.Ctx, tok)
		if diff := cmp.Diff(approval("order-7"), info.Meta); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		w.Resume(flowtest.Filter(w.Log(run), event.HookCreated)[0].Token, 2)
		if got := flowtest.Result(w, run); got != 3 {
			t.Errorf("got %d, want 3", got)
		}
	})
}

// countStep is a step. A worker that registers it has another fingerprint.
var countStep = flowtest.AStep[int, int]("count-hooks", shim.Policy{}).As(func(_ context.Context, n int) (int, error) { return n, nil })

// TestFLOW18_ANewRunDescribesItsHooksAnew proves that a run that continues as new, or is rerun,
// opens its own hooks with the description that its code gives. The hooks of the old run keep their
// descriptions.
func TestFLOW18_ANewRunDescribesItsHooksAnew(t *testing.T) {
	turns := flowtest.Flow[int, int]("turns")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		say := "once"
		w.Work(worker.Config{}, flowtest.As(turns, func(ctx workflow.Context, n int) (int, error) {
			hook, err := flowtest.Paid.Open(ctx, workflow.Describe(workflow.HookMeta{Title: fmt.Sprint(say, " ", n)}))
			if err != nil {
				return 0, err
			}
			v, err := hook.Receive(ctx)
			if err != nil || v == 0 {
				return v, err
			}
			return 0, turns.ContinueAsNew(ctx, n+1)
		}))
		title := func(run *workflow.Run[int], want string) (token string) {
			t.Helper()
			w.Reach(run, event.WaitCreated, 1)
			hooks, err := run.Hooks(w.Ctx)
			if err != nil || len(hooks) != 1 || hooks[0].Meta.Title != want {
				t.Fatalf("got %v, %v, want one hook that is called %q", hooks, err, want)
			}
			if info, err := w.Client.Hook(w.Ctx, hooks[0].Token); err != nil || info.Meta.Title != want || info.Run != run.ID() {
				t.Errorf("by its token: got %v, %v, want %q", info, err, want)
			}
			return hooks[0].Token
		}
		first := flowtest.Start(w, turns, 1)
		old := title(first, "once 1")
		w.Resume(old, 1)
		second := turns.Get(w.Client, w.Reach(first, event.RunContinued, 1).Next)
		title(second, "once 2")
		if info, err := w.Client.Hook(w.Ctx, old); err != nil || !info.Closed || info.Meta.Title != "once 1" {
			t.Errorf("the hook of the run that continued: got %v, %v", info, err)
		}

		say = "again" // no code is executing, so this is no data race
		again, err := second.Restart(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		title(again, "again 2")
		if err := again.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		flowtest.Failure(w, again)
		resumed, err := again.RetryCanceled(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		token := title(resumed, "again 2")
		w.Resume(token, 0)
		flowtest.Result(w, resumed)
		title(second, "once 2")
	})
}
