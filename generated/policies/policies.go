// Package policies holds every option that determines how a step or workflow is executed, keys, and errors of other
// packages that are matched behind durable calls.
package policies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrDeclined is final.
var ErrDeclined = errors.New("declined")

// LimitError is final, too.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string { return fmt.Sprintf("limit is %d", e.Limit) }

// Code is an error by value.
type Code int

func (c Code) Error() string { return fmt.Sprintf("code %d", int(c)) }

//flow:step retries=0
func once(ctx context.Context) error { return io.EOF }

//flow:step retries=2 backoff=constant(5s) jitter=0.25
func constant(ctx context.Context) error { return nil }

//flow:step backoff=linear(1s,1m30s) total=36h
func linear(ctx context.Context) error { return nil }

//flow:step backoff=exponential(1ms,1h,1.5) timeout=1.5s
func exponential(ctx context.Context) error { return nil }

//flow:step fatal=ErrDeclined,*LimitError,Code,io.EOF nonidempotent timeout=1h
func fatal(ctx context.Context) error { return nil }

//flow:step queue=gpu
func render(ctx context.Context) error { return nil }

// Plan is bought by a customer.
type Plan struct{ Rank int8 }

// Above is a rank above that of n others.
func Above(n int) int { return n + 1 }

//flow:workflow priority=plan.Rank startwithin=30s rerun=3,linear(10m,1h) pin
func ranked(ctx workflow.Context, plan Plan) error { return nil }

//flow:workflow singleton=plan.Rank,latest
func newest(ctx workflow.Context, plan Plan) error { return nil }

//flow:workflow singleton=`"nightly"`
func alone(ctx workflow.Context) error { return nil }

//flow:workflow singleton=fmt.Sprint(name,n),queue
func queued(ctx workflow.Context, name string, n int) error { return nil }

//flow:workflow debounce=plan.Rank,10s,2m
func debounced(ctx workflow.Context, plan Plan) error { return nil }

//flow:workflow debounce=`"all"`,1.5s
func debouncedAll(ctx workflow.Context, name string, n int) (string, error) { return name, nil }

//flow:workflow batch=100,5s
func batched(ctx workflow.Context, plans []Plan) error { return nil }

//flow:workflow batch=2,1m,fmt.Sprint(n) priority=n
func batchedByNumber(ctx workflow.Context, n []int) (int, error) { return len(n), nil }

//flow:workflow batch=10,1h,name
func batchedTogether(ctx workflow.Context, name ...string) error { return nil }

//flow:workflow priority=Above(len(names))+n
func rankedTogether(ctx workflow.Context, n int, names []string) error { return nil }

//flow:workflow fair=plan.Rank
func shared(ctx workflow.Context, plan Plan) error { return nil }

//flow:workflow fair=names[0]:Above(n)
func sharedByWeight(ctx workflow.Context, n int, names []string) error { return nil }

//flow:workflow priority=-1
func last(ctx workflow.Context) error { return nil }

//flow:workflow queue=slow timeout=24h retention=720h children=500
func flow(ctx workflow.Context) error { return Once(ctx) }
