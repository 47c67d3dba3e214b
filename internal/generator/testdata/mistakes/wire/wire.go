package wire

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step wire=customer
func noColon(ctx context.Context, customer string) error { return nil }

//flow:step wire=customer:a.b
func noName(ctx context.Context, customer string) error { return nil }

//flow:step wire=payer:customer
func noParameter(ctx context.Context, customer string) error { return nil }

//flow:step wire=a:x,a:y
func twice(ctx context.Context, a string) error { return nil }

//flow:workflow wire=a:B
func same(ctx workflow.Context, a, b string) error { return nil }
