package singleton

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type order struct {
	ID    string
	Lines []string
	At    time.Time
}

func pair(a, b string) string { return a + "/" + b }

//flow:workflow singleton=o.Id
func field(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.ID,queu
func policy(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.ID,o.ID,skip
func several(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.ID,later
func unknown(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.Lines
func lines(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.At
func at(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=ctx.Err().Error()
func context_(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton=o.ID+
func syntax(ctx workflow.Context, o order) error { return nil }

//flow:workflow singleton
func empty(ctx workflow.Context) error { return nil }

//flow:step singleton=id
func step(ctx context.Context, id string) error { return nil }

//flow:workflow schedule="every 1h" singleton=`"hourly"`
func hourly(ctx workflow.Context) error { return nil }

//flow:workflow singleton=pair(o.ID,o.Lines[0]),queue
func good(ctx workflow.Context, o order) error { return nil }
