package uses

import (
	"context"
	"strconv"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	GPU         = limit.New("gpu", limit.Config{AtOnce: 4})
	PerHost     = limit.NewKeyed[string]("host", limit.Config{AtOnce: 2})
	notALimit   = 5
	otherParams = strconv.Itoa
)

//flow:step uses=GPUU
func misspelt(ctx context.Context) error { return nil }

//flow:step uses=GPU:0
func zero(ctx context.Context) error { return nil }

//flow:step uses=GPU:x
func word(ctx context.Context) error { return nil }

//flow:step uses=GPU:1,GPU:2
func twice(ctx context.Context) error { return nil }

//flow:step uses=PerHost
func keyless(ctx context.Context) error { return nil }

//flow:step uses=GPU(host)
func keyed(ctx context.Context, host string) error { return nil }

//flow:step uses=PerHost(n)
func number(ctx context.Context, n int) error { return nil }

//flow:step uses=PerHost(hots)
func unknown(ctx context.Context, host string) error { return nil }

//flow:step uses=PerHost()
func empty(ctx context.Context) error { return nil }

//flow:step uses=notALimit
func other(ctx context.Context) error { return nil }

//flow:step uses=elsewhere.GPU
func elsewhere(ctx context.Context) error { return nil }

//flow:workflow uses=PerHost(order.Host)
func fulfil(ctx workflow.Context, order string) error { return nil }
