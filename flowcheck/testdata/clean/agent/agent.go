// Package agent lets a model use tools, the dangerous ones only with approval.
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Action is what the model wants to do.
type Action struct {
	Tool string
	Args json.RawMessage
	Done bool
}

// Approvals come from people.
var Approvals = workflow.NewTopic[bool]("approvals")

// Plan is shown to people.
var Plan = workflow.NewValue[string]("plan")

type tool struct {
	dangerous bool
	call      func(workflow.Context, json.RawMessage) (string, error)
}

var tools = map[string]tool{
	"search": {call: Search},
	"delete": {dangerous: true, call: Remove},
}

//flow:step
func think(ctx context.Context, goal string, seen []string) (Action, error) {
	return Action{Done: true}, ctx.Err()
}

//flow:step
func search(ctx context.Context, args json.RawMessage) (string, error) {
	return string(args), ctx.Err()
}

//flow:step
func remove(ctx context.Context, args json.RawMessage) (string, error) {
	return string(args), ctx.Err()
}

// act loops until the model is done.
//
//flow:workflow
func act(ctx workflow.Context, goal string) ([]string, error) {
	var seen []string
	for range 50 {
		action, err := Think(ctx, goal, seen)
		if err != nil {
			return seen, err
		}
		if action.Done {
			return seen, nil
		}
		use, ok := tools[action.Tool]
		if !ok {
			seen = append(seen, "there is no tool "+action.Tool)
			continue
		}
		if use.dangerous {
			Plan.Set(ctx, action.Tool+" "+string(action.Args))
			yes, err := Approvals.Receive(ctx, workflow.Timeout(24*time.Hour))
			if err != nil || !yes {
				seen = append(seen, "not approved")
				continue
			}
		}
		result, err := use.call(ctx, action.Args)
		if err != nil {
			result = fmt.Sprintf("%s failed: %v", action.Tool, err)
		}
		seen = append(seen, result)
	}
	return seen, nil
}
