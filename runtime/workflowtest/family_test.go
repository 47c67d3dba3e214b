package workflowtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	family   = flow("shop.family")
	listener = flow("shop.listener")
	parcel   = flow("shop.parcel")
)

// familyCode uses the operations between runs. It starts children and sends a message to one of
// them. Between two messages from outside it continues as new.
func familyCode(ctx workflow.Context, in string) (string, error) {
	first, err := note.Receive(ctx)
	if err != nil {
		return "", err
	}
	child := listener.StartChild(ctx, in)
	if err := child.Started(ctx); err != nil {
		return "", err
	}
	if err := note.SendFrom(ctx, child.ID(), first); err != nil {
		return "", err
	}
	heard, err := child.Get(ctx)
	if err != nil {
		return "", err
	}
	boxes, err := workflow.Map(ctx, []string{"a", "b"}, parcel.Child)
	if err != nil {
		return "", err
	}
	told := fmt.Sprint(in, heard, boxes)
	if in == "o1" {
		return "", flow("shop.family").ContinueAsNew(ctx, told)
	}
	return told, nil
}

func setupFamily(e *workflowtest.Env) *books {
	shim.BindWorkflow(e, family, familyCode)
	for i, text := range []string{"one", "two"} {
		// The second message arrives either while the first run is active or after it has continued
		// as new.
		e.At(time.Hour+time.Duration(i)*time.Millisecond, func(ctx context.Context) {
			if err := note.Send(ctx, e.Run(), text, workflow.IdempotencyKey(text)); err != nil {
				panic(err)
			}
		})
	}
	return bindFamily(e)
}

// bindFamily registers the workflows and steps that familyCode uses.
func bindFamily(e *workflowtest.Env) *books {
	b := &books{seen: map[string]bool{}}
	shim.BindWorkflow(e, listener, func(ctx workflow.Context, in string) (string, error) {
		heard, err := note.Receive(ctx)
		return "<" + heard + ">", err
	})
	shim.BindWorkflow(e, parcel, func(ctx workflow.Context, in string) (string, error) { return call(ctx, pack, in) })
	pack.Bind(e, func(ctx context.Context, arg string) (string, error) {
		b.book(ctx, arg)
		return arg, nil
	})
	return b
}

func TestTEST3_WhatRunsDoToOtherRunsSurvivesEveryCrash(t *testing.T) {
	var b *books
	r := workflowtest.CrashEverywhere(t, family, "o1", func(e *workflowtest.Env) { b = setupFamily(e) },
		workflowtest.State(func(*workflowtest.Env) any { return b.entries }))
	if r.Tried != r.Points || r.Points < 60 || r.Failed+r.Interrupted != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTEST3_WhatRunsDoToOtherRunsEndsAlikeInEveryOrder(t *testing.T) {
	workflowtest.Interleave(t, family, "o1", func(e *workflowtest.Env) { setupFamily(e) }, 100)
}
