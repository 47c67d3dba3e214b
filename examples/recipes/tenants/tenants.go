// Package tenants bounds how many exports of a tenant run at once. The burst of one tenant never
// exceeds its limit, and does not delay the exports of the others.
//
//	go run ./examples/recipes tenants
//
// Acme starts eight exports, then Zen starts one. It prints:
//
//	zen has its export, and acme waits for 6
//	acme has 8 exports, at most 2 of them at once
package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// PerTenant lets each tenant run two exports at once, on all workers together. Operators set another
// number for one tenant at run time: see flowctl pools set.
var PerTenant = limit.NewKeyed[string]("tenant", limit.Config{AtOnce: 2, Spread: true})

// Job is an export of a tenant.
type Job struct {
	Tenant string
	Number int
}

// Exporter contains the dependencies of the steps.
type Exporter struct {
	Write func(ctx context.Context, job Job) error
}

// export holds a permit of its tenant from its first claim to its end. An export that waits for a
// permit holds no worker. With fair= the tenants also get equal shares of busy workers.
//
//flow:workflow uses=PerTenant(job.Tenant) fair=job.Tenant
func export(ctx workflow.Context, job Job) error {
	return Write(ctx, job)
}

//flow:step timeout=1h
func (e *Exporter) write(ctx context.Context, job Job) error { return e.Write(ctx, job) }

// Burst starts n exports of a tenant. An export that exists is not started again.
func Burst(ctx context.Context, client *workflow.Client, tenant string, n int) ([]*workflow.Run[workflow.None], error) {
	var all []workflow.StartRequest[Job]
	for i := range n {
		all = append(all, workflow.StartRequest[Job]{
			Input:   Job{Tenant: tenant, Number: i},
			Options: []workflow.StartOption{workflow.WithID(fmt.Sprintf("export-%s-%d", tenant, i))},
		})
	}
	started, err := Export.StartMany(ctx, client, all)
	if err != nil {
		return nil, err
	}
	runs := make([]*workflow.Run[workflow.None], n)
	for i, s := range started {
		if s.Err != nil {
			return nil, s.Err
		}
		runs[i] = s.Run
	}
	return runs, nil
}

// Run starts a burst of one tenant and an export of another one.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	slow := &disk{release: make(chan struct{})}
	w := worker.New(client, worker.Config{})
	Register(w, &Exporter{Write: slow.write})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	acme, err := Burst(ctx, client, "acme", 8)
	if err != nil {
		return err
	}
	zen, err := Burst(ctx, client, "zen", 1)
	if err != nil {
		return err
	}
	if _, err := zen[0].Result(ctx); err != nil {
		return err
	}
	limits, err := ops.New(client).Limits().List(ctx)
	if err != nil {
		return err
	}
	for _, l := range limits {
		if l.Key == "acme" {
			_, _ = fmt.Fprintf(out, "zen has its export, and acme waits for %d\n", l.Waits)
		}
	}
	close(slow.release)
	for _, run := range acme {
		if _, err := run.Result(ctx); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "acme has %d exports, at most %d of them at once\n", len(acme), slow.peak)
	return err
}

// disk is slow for Acme: its exports end once release is closed.
type disk struct {
	release   chan struct{}
	mu        sync.Mutex
	now, peak int // exports of Acme
}

func (d *disk) write(ctx context.Context, job Job) error {
	if job.Tenant != "acme" {
		return nil
	}
	d.mu.Lock()
	d.now++
	d.peak = max(d.peak, d.now)
	d.mu.Unlock()
	defer func() { d.mu.Lock(); d.now--; d.mu.Unlock() }()
	select {
	case <-d.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
