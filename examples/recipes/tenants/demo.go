package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Run starts many exports of one tenant and then an export of another tenant.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	slow := &disk{begun: make(chan struct{}, 8), release: make(chan struct{})}
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
	for range 2 { // Wait for as many exports as the limit permits.
		select {
		case <-slow.begun:
		case <-ctx.Done():
			return ctx.Err()
		}
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

// disk simulates a slow disk. The exports of Acme end when release is closed.
type disk struct {
	begun     chan struct{} // receives a value for each export of Acme that begins
	release   chan struct{}
	mu        sync.Mutex
	now, peak int // current and maximum number of exports of Acme
}

func (d *disk) write(ctx context.Context, job Job) error {
	if job.Tenant != "acme" {
		return nil
	}
	d.mu.Lock()
	d.now++
	d.peak = max(d.peak, d.now)
	d.mu.Unlock()
	d.begun <- struct{}{}
	defer func() { d.mu.Lock(); d.now--; d.mu.Unlock() }()
	select {
	case <-d.release:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
