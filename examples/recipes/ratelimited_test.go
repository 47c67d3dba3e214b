package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/ratelimited"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The test proves that no worker sends a request before the delay requested by Retry-After is over.
// Two workers send many contacts.
func TestRatelimited_NoWorkerSendsBeforeRetryAfterIsOver(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	st := memstore.New()
	client := workflow.NewClient(st, quiet)
	crm := &ratelimited.Service{Quota: 12}
	url, closeCRM, err := crm.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer closeCRM()
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 2)
	for range 2 {
		w := worker.New(client, worker.Config{})
		ratelimited.Register(w, &ratelimited.Contacts{CRM: url})
		go func() { worked <- w.Run(working) }()
	}
	defer func() {
		stop()
		if err := errors.Join(<-worked, <-worked, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()
	var runs []*workflow.Run[workflow.None]
	for r := range 3 { // All workers share the rate.
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprintf("contact-%d-%d", r, i))
		}
		run, err := ratelimited.Publish.Start(ctx, client, names)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for _, run := range runs {
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sent, busy, early := crm.Counts()
	if sent != 30 || busy != 2 || early != 0 {
		t.Errorf("%d sent, %d answered with 429, %d of them too early; want 30, 2, 0", sent, busy, early)
	}
}
