package flows

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// half returns half of an even number. It fails for an odd number.
//
//flow:workflow
func half(ctx workflow.Context, n int) (int, error) {
	if n%2 == 1 {
		return 0, fmt.Errorf("%d is odd: %w", n, ErrNotYet)
	}
	return n / 2, Work(ctx, time.Millisecond)
}

// halves starts a child for each number. It omits the results of children that fail.
//
//flow:workflow
func halves(ctx workflow.Context, numbers []int) (string, error) {
	sum, failed := 0, 0
	for _, o := range workflow.MapSettled(ctx, numbers, Half.Child, workflow.Limit(5)) {
		if errors.Is(o.Err, ErrNotYet) {
			failed++
		} else if o.Err != nil {
			return "", o.Err
		}
		sum += o.Value
	}
	return fmt.Sprintf("%d, and %d failed", sum, failed), nil
}

// wait receives a cue and returns the name with the cue.
//
//flow:workflow as=WaitForCue
func wait(ctx workflow.Context, name string) (string, error) {
	cue, err := Cue.Receive(ctx)
	return name + ": " + cue, err
}

// leave starts three children, cancels a fourth, and ends. At its end, the first child is canceled,
// the second continues independently, and the third is waited for. The workflow IDs of the children
// begin with name.
//
//flow:workflow
func leave(ctx workflow.Context, name string) (string, error) {
	policies := []workflow.ParentClose{workflow.ParentCloseCancel, workflow.ParentCloseAbandon, workflow.ParentCloseWait}
	for _, policy := range policies {
		child := WaitForCue.StartChild(ctx, policy.String(), workflow.WithID(name+"-"+policy.String()), workflow.WithParentClose(policy))
		if err := child.Started(ctx); err != nil {
			return "", err
		}
	}
	unwanted := WaitForCue.StartChild(ctx, "unwanted")
	if err := unwanted.Started(ctx); err != nil {
		return "", err
	}
	unwanted.Cancel(ctx, "not wanted any more")
	if _, err := unwanted.Get(ctx); !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("the child that was canceled: %w", err)
	}
	return "left", nil
}

// crowd starts more concurrent children than a run may have.
//
//flow:workflow children=3
func crowd(ctx workflow.Context, n int) (int, error) {
	for i := range n {
		child := WaitForCue.StartChild(ctx, fmt.Sprint(i))
		if child.Done() {
			_, err := child.Get(ctx)
			if limit, ok := errors.AsType[*workflow.LimitError](err); ok {
				return limit.Limit, nil
			}
			return 0, err
		}
	}
	return 0, nil
}

// Tally is the state that count passes to its next run.
type Tally struct {
	Sum   int `json:"sum"`
	Count int `json:"count"`
	Turns int `json:"turns"`
	Want  int `json:"want"`
	Each  int `json:"each"` // number of messages per run
}

// count adds up the numbers that it receives. It repeatedly continues as a new run.
//
//flow:workflow
func count(ctx workflow.Context, t Tally) (Tally, error) {
	if t.Count == t.Want {
		return t, nil
	}
	for range t.Each {
		n, err := Numbers.Receive(ctx)
		if err != nil {
			return t, err
		}
		t.Sum, t.Count = t.Sum+n, t.Count+1
	}
	t.Turns++
	return t, Count.ContinueAsNew(ctx, t)
}
