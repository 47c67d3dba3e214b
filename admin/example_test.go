package admin_test

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// flowgen generates such definitions.
var fulfil = shim.NewWorkflow[string, string]("orders.fulfil", "order", shim.WorkflowPolicy{})

func Example() {
	ctx := context.Background()
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer client.Close()
	for _, id := range []string{"order-1", "order-2"} {
		if _, err := fulfil.Start(ctx, client, "shoes", workflow.WithID(id)); err != nil {
			fmt.Println(err)
			return
		}
	}

	service := admin.New(client)
	page, err := service.Runs(ctx, admin.Filter{Statuses: []string{"pending"}, Oldest: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range page.Runs {
		fmt.Println(r.Status, r.Workflow, r.WorkflowID)
	}
	if _, err := service.Act(ctx, "id:order-2", admin.Action{Verb: "cancel", Reason: "ordered twice"}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := service.Run(ctx, "id:order-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, string(r.Input), r.Actions)
	_, err = service.Act(ctx, r.ID, admin.Action{Verb: "pause"})
	p := admin.ProblemOf(err)
	fmt.Println(p.Status, p.Code)
	// Unordered output:
	// pending orders.fulfil order-1
	// pending orders.fulfil order-2
	// cancelled {"order":"shoes"} [resume-new restart delete]
	// 409 refused
}
