// Package policies holds every option that says how a step or workflow is run.
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

//flow:workflow queue=slow timeout=24h retention=720h children=500
func flow(ctx workflow.Context) error { return Once(ctx) }
