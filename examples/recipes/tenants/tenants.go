// Package tenants limits the number of concurrent exports of each tenant. A tenant that starts many
// exports does not exceed its limit, and does not delay the exports of other tenants.
//
//	go run ./examples/recipes tenants
//
// Acme starts eight exports, and then Zen starts one. The recipe prints:
//
//	zen has its export, and acme waits for 6
//	acme has 8 exports, at most 2 of them at once
package tenants

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// PerTenant limits each tenant to two concurrent exports on all workers together. Operators can
// change the number for one tenant at run time with flowctl pools set.
var PerTenant = limit.NewKeyed[string]("tenant", limit.Config{AtOnce: 2, Spread: true})

// Job is the input of export.
type Job struct {
	Tenant string
	Number int
}

// Exporter contains the dependencies of the steps.
type Exporter struct {
	Write func(ctx context.Context, job Job) error
}

// export holds a permit of its tenant from its first claim to its end. An export that waits for a
// permit occupies no worker. Because of fair=, the tenants get equal shares of busy workers.
//
//flow:workflow uses=PerTenant(job.Tenant) fair=job.Tenant
func export(ctx workflow.Context, job Job) error {
	return Write(ctx, job)
}

//flow:step timeout=1h
func (e *Exporter) write(ctx context.Context, job Job) error { return e.Write(ctx, job) }

// Burst starts n exports of a tenant. An export that is in progress is not started a second time.
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
