package ops_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// open returns a client and a run. The run waits, because no worker is running.
func open(ctx context.Context) (client *workflow.Client, run workflow.RunID, stop func()) {
	st := memstore.New()
	client = workflow.NewClient(st, workflow.ClientConfig{})
	started, err := flows.Review.Start(ctx, client, "spec")
	if err != nil {
		panic(err)
	}
	return client, started.ID(), func() { _ = errors.Join(client.Close(), st.Close()) }
}

// Fleet reads the state of queues and workers from the store, even if no worker is running.
func ExampleClient_Fleet() {
	ctx := context.Background()
	client, _, stop := open(ctx)
	defer stop()
	fleet, err := ops.New(client).Fleet(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, q := range fleet.Queues {
		fmt.Println(q.Queue, q.Ready, "ready,", q.Workers, "workers")
	}
	// Output: default 1 ready, 0 workers
}

// An operator can terminate and delete a run that no worker serves.
func ExampleClient_Terminate() {
	ctx := context.Background()
	client, run, stop := open(ctx)
	defer stop()
	operator := ops.New(client)
	fmt.Println(operator.Terminate(ctx, run, "its code is gone"))
	info, err := client.Run(run).Info(ctx)
	fmt.Println(info.Status, err)
	n, err := operator.DeleteMany(ctx, workflow.Filter{From: time.Now().Add(-time.Hour)})
	fmt.Println(n, err)
	// Output:
	// <nil>
	// cancelled <nil>
	// 1 <nil>
}

// An operator can configure a limit before a worker declares it.
func ExampleLimits_Set() {
	ctx := context.Background()
	client, _, stop := open(ctx)
	defer stop()
	mails := limit.New("mails", limit.Config{AtOnce: 2})
	limits := ops.New(client).Limits()
	if err := limits.Set(ctx, mails, limit.Config{AtOnce: 5}); err != nil {
		fmt.Println(err)
		return
	}
	all, err := limits.List(ctx)
	for _, l := range all {
		fmt.Println(l.Name, l.Config.AtOnce, l.Set)
	}
	fmt.Println(err)
	// Output:
	// mails 5 true
	// <nil>
}
