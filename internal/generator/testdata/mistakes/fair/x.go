package fair

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type order struct {
	Tenant string
	Share  int
	Large  uint64
	Rate   float64
	At     time.Time
}

func both(o order) (string, error) { return "", nil }

//flow:workflow fair=o.Tenat
func field(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant+
func syntax(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o
func structure(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.At
func when(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=both(o)
func tuple(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=`"all"`
func constant(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:
func empty(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:2:3
func many(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:0
func none(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:101
func large(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:o.Shar
func shareField(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:o.Rate
func fraction(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant:o.Large
func unsigned(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=ctx.Err().Error()
func context_(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair
func novalue(ctx workflow.Context, o order) error { return nil }

//flow:step fair=o.Tenant
func step(ctx context.Context, o order) error { return nil }

//flow:workflow fair=o.Tenant[1:3]:o.Share
func good(ctx workflow.Context, o order) error { return nil }

//flow:workflow fair=n:3
func number(ctx workflow.Context, n int) error { return nil }
