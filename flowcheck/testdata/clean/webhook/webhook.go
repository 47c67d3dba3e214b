// Package webhook registers itself with a service by a token.
package webhook

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Event is a call of the service.
type Event struct {
	Kind string
	N    int
}

// Calls are the calls of the service.
var Calls = workflow.NewHook[Event]("calls")

//flow:step as=Register2
func register(ctx context.Context, service, token string) (string, error) {
	return service + "/1", ctx.Err()
}

//flow:step
func unregister(ctx context.Context, id string) error { return ctx.Err() }

// listen counts calls by kind until the service says that it ends.
//
//flow:workflow
func listen(ctx workflow.Context, service string) (counts map[string]int, err error) {
	hook, err := Calls.Open(ctx, workflow.Token("listen-"+service))
	if err != nil {
		return nil, err
	}
	id, err := Register2(ctx, service, hook.Token())
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, Unregister(workflow.Detached(ctx), id))
	}()
	counts = make(map[string]int)
	for {
		event, err := hook.Receive(ctx)
		if err != nil {
			return counts, err
		}
		if event.Kind == "end" {
			break
		}
		counts[event.Kind] += event.N
	}
	total := 0
	for kind, n := range counts {
		if n == 0 {
			delete(counts, kind)
		}
		total += n
	}
	counts["all"] = total
	return counts, nil
}
