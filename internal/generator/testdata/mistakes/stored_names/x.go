package stored_names

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step name=stored_names.b
func a(ctx context.Context) error { return nil }

//flow:step
func b(ctx context.Context) error { return nil }

//flow:workflow name=stored_names.b
func c(ctx workflow.Context) error { return nil }

//flow:error name=x.y
var errA = errors.New("a")

//flow:error name=x.y
var errB = errors.New("b")
