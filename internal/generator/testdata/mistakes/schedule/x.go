package schedule

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:workflow schedule="0 0 31 2 *"
func never(ctx workflow.Context) error { return nil }

//flow:workflow schedule="30 2 * *"
func fourFields(ctx workflow.Context) error { return nil }

//flow:workflow schedule="0 30 2 * * *"
func seconds(ctx workflow.Context) error { return nil }

//flow:workflow schedule="30 2 * * * Zurich"
func zone(ctx workflow.Context) error { return nil }

//flow:workflow schedule="every ten"
func interval(ctx workflow.Context) error { return nil }

//flow:workflow schedule=@daily
func name(ctx workflow.Context) error { return nil }

//flow:workflow schedule=30 2 * * *
func unquoted(ctx workflow.Context) error { return nil }

//flow:workflow schedule="every 1h"
func input(ctx workflow.Context, days int) error { return nil }

//flow:workflow schedule="every 1h"
func inputs(ctx workflow.Context, from, to string) error { return nil }

//flow:workflow schedule
func empty(ctx workflow.Context) error { return nil }

//flow:step schedule="every 1h"
func step(ctx context.Context) error { return nil }
