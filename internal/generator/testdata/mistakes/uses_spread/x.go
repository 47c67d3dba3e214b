package spread

import (
	"context"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	GPU         = limit.New("gpu", limit.Config{AtOnce: 4})
	Memory      = limit.NewLocal("memory")
	PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1, Spread: true})
	PerTenant   = limit.NewKeyed[string]("tenant", limit.Config{AtOnce: 1, Spread: true})
)

type Order struct{ Customer, Tenant string }

//flow:workflow uses=PerCustomer(o.Customer),GPU
func fulfil(ctx workflow.Context, o Order) error { return nil }

//flow:step uses=PerCustomer(o.Customer),PerTenant(o.Tenant)
func bill(ctx context.Context, o Order) error { return nil }

// pack is no mistake: what each worker has goes with all limits.
//
//flow:step uses=PerCustomer(o.Customer),Memory:512
func pack(ctx context.Context, o Order) error { return nil }

//flow:step uses=Memory(o.Customer)
func keyed(ctx context.Context, o Order) error { return nil }

//flow:step uses=Memory:0
func zero(ctx context.Context) error { return nil }

//flow:step uses=Memry:1
func misspelt(ctx context.Context) error { return nil }
