package collect

import (
	"context"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type doc struct {
	ID    string
	Lines []string
}

func pair(a, b string) string { return a + "/" + b }

//flow:workflow debounce=d.ID,10s,5s
func below(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.ID,10s,10s
func equal(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.ID
func never(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=10s
func keyless(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.ID,soon
func soon(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.Id,10s
func field(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.Lines,10s,2m
func lines(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=d.ID,d.ID,10s,2m
func several(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=ctx.Err().Error(),10s
func context_(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=ds.ID,10s batch=100,5s
func both(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow debounce=d.ID,10s singleton=d.ID
func single(ctx workflow.Context, d doc) error { return nil }

//flow:workflow debounce=`"all"`,10s schedule="every 1h"
func hourly(ctx workflow.Context) error { return nil }

//flow:workflow batch=100,5s startwithin=1s
func late(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=100,5s
func one(ctx workflow.Context, d doc) error { return nil }

//flow:workflow batch=100,5s
func two(ctx workflow.Context, ds []doc, tenant string) error { return nil }

//flow:workflow batch=100,5s
func none(ctx workflow.Context) error { return nil }

//flow:workflow batch=100
func timeless(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=1,5s
func lone(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=5s,100
func swapped(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=100,5s,
func cut(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=100,5s,ds[0].ID
func index(ctx workflow.Context, ds []doc) error { return nil }

//flow:workflow batch=100,5s,doc.ID
func typed(ctx workflow.Context, ds []doc) error { return nil }

//flow:step debounce=id,10s
func step(ctx context.Context, id string) error { return nil }

//flow:workflow debounce=pair(d.ID,d.Lines[0]),10s,2m
func good(ctx workflow.Context, d doc) error { return nil }

//flow:workflow batch=100,5s,pair(ds.ID,ds.Lines[0]) priority=len(ds.Lines)
func goodBatch(ctx workflow.Context, ds []doc) (int, error) { return 0, nil }

var perTenant = limit.NewKeyed[string]("tenant", limit.Config{AtOnce: 1})

//flow:workflow batch=100,5s uses=perTenant(d.ID)
func limited(ctx workflow.Context, d []doc) error { return nil }

//flow:workflow debounce=d.ID,10s uses=perTenant(d.ID+"x") fair=d.ID
func otherKey(ctx workflow.Context, d doc) error { return nil }

//flow:workflow batch=100,5s,d.ID uses=perTenant(d.ID) fair=d.ID:len(d.Lines)
func share(ctx workflow.Context, d []doc) error { return nil }

//flow:workflow debounce=d.ID,10s fair=d.Lines[0]
func unfair(ctx workflow.Context, d doc) error { return nil }

//flow:workflow batch=100,5s uses=perTenant("all")
func constant(ctx workflow.Context, d []doc) error { return nil }

//flow:workflow startwithin=1h timeout=30m
func expired(ctx workflow.Context, d doc) error { return nil }
