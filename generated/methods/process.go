package methods

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Item is stored in files.
type Item struct{ Name string }

// started is initialised from what is generated.
var started = Process.Name()

//flow:workflow
func process(ctx workflow.Context, id string) ([]Item, error) {
	item, err := Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := workflow.Sleep(ctx, time.Hour); err != nil {
		return nil, err
	}
	item.Name += started
	return workflow.Map(ctx, []Item{item}, Double)
}
