package main

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/tenants"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The test proves that a tenant with many exports stays within its limit and does not delay another
// tenant. Its exports end only after the export of the other tenant has ended. If the limit were
// shared by the tenants, the test would time out.
func TestTenants_ABurstKeepsItsLimitAndDelaysNoOtherTenant(t *testing.T) {
	ctx := limited(t)
	st := memstore.New()
	client := workflow.NewClient(st, quiet)
	begun, othersDone := make(chan struct{}, 30), make(chan struct{})
	var mu sync.Mutex
	now, peak, total := map[string]int{}, map[string]int{}, 0
	exporter := &tenants.Exporter{Write: func(ctx context.Context, job tenants.Job) error {
		mu.Lock()
		now[job.Tenant]++
		total++
		peak[job.Tenant] = max(peak[job.Tenant], now[job.Tenant])
		mu.Unlock()
		defer func() { mu.Lock(); now[job.Tenant]--; mu.Unlock() }()
		if job.Tenant != "big" {
			return nil
		}
		begun <- struct{}{}
		select {
		case <-othersDone:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 2)
	for range 2 { // The limit applies to all workers together.
		w := worker.New(client, worker.Config{})
		tenants.Register(w, exporter)
		go func() { worked <- w.Run(working) }()
	}
	defer func() {
		stop()
		if err := errors.Join(<-worked, <-worked, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}()

	big, err := tenants.Burst(ctx, client, "big", 30)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-begun:
		case <-ctx.Done():
			t.Fatal("the burst does not use its limit")
		}
	}
	for _, tenant := range []string{"small", "tiny"} {
		runs, err := tenants.Burst(ctx, client, tenant, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			if _, err := run.Result(ctx); err != nil {
				t.Fatalf("%s: %v", tenant, err)
			}
		}
	}
	close(othersDone)
	for _, run := range big {
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if total != 40 || peak["big"] != 2 || peak["small"] > 2 || peak["tiny"] > 2 {
		t.Errorf("%d exports, at once %v; want 40, and 2 of each tenant", total, peak)
	}
}
