package workflow

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

func init() {
	engine.ClientOf = func(c any) engine.Client { return engineClient{c.(*Client)} }
	engine.RegistryOf = func(r any) engine.Registry { return &r.(*Registry).r }
	engine.Define = func(d any, spec engine.DefinitionSpec) { d.(interface{ define(s engine.DefinitionSpec) }).define(spec) }
	engine.BindWorkflow = func(r, d, f any) { d.(interface{ bind(r *registry, f any) }).bind(&r.(*Registry).r, f) }
	engine.StandIn = func(r, d, fake any) engine.StepFunc {
		return d.(interface {
			standIn(r *registry, fake any) engine.StepFunc
		}).standIn(&r.(*Registry).r, fake)
	}
	engine.NewPlan, engine.CallStep = newPlan, callStep
	engine.HookOf = func(h, options any) (attempt.Hook, error) {
		return h.(interface {
			ofStep(options []HookOption) (attempt.Hook, error)
		}).ofStep(options.([]HookOption))
	}
	engine.EncodePayload, engine.DecodePayload = encodePayload, decodePayload
	engine.DecodeArgs, engine.DecodeFields = decodeArgs, decodeFields
	engine.Block = func(ctx Context, err error) { ctx.branch().Block(err) }
	engine.StreamOf = func(s any) (name string, keep int) {
		d := s.(interface{ declared() *stream }).declared()
		return d.name, d.keep
	}
}

// engineClient gives workers access to a client.
type engineClient struct{ c *Client }

// Store returns the store of the client.
func (e engineClient) Store() store.Store { return e.c.store }

// Logger returns the logger of the client.
func (e engineClient) Logger() *slog.Logger { return e.c.logger }

// CheckPayload returns an error if a payload is larger than the client's limit.
func (e engineClient) CheckPayload(kind, name string, size int) error {
	l := &e.c.limits
	if size <= l.warn && size <= l.max {
		return nil // avoids building the name
	}
	return l.check(kind+name, size, false)
}

// SetAside applies the pause in the inbox of a run that waits for permits.
func (e engineClient) SetAside(ctx context.Context, run RunID) { e.c.setAside(ctx, run) }

// Rerun reruns a failed run by the policy of its workflow.
func (e engineClient) Rerun(ctx context.Context, run RunID, deadline time.Time) (why string, err error) {
	return e.c.rerunByPolicy(ctx, run, deadline)
}

// AddHost registers a worker with the client.
func (e engineClient) AddHost(h handover.Host) (leave func()) { return e.c.hosts.add(h) }

// Check returns ErrClientClosed if the client is closed.
func (e engineClient) Check() error { return e.c.check() }

// LogDamage logs the damaged data that the store has left out.
func (e engineClient) LogDamage() { e.c.logDamage() }

// Persist calls f until it succeeds, waiting out an outage of the store.
func (e engineClient) Persist(ctx context.Context, operation string, f func() error) error {
	return e.c.persist(ctx, operation, f)
}

// Unserved reports whether a run waits for a worker and no worker serves its route.
func (e engineClient) Unserved(ctx context.Context, r *store.Record) (bool, error) {
	return e.c.unserved(ctx, r)
}

// ExplainUnserved returns err, which also matches ErrRunUnserved if no worker serves the run.
func (e engineClient) ExplainUnserved(ctx context.Context, run RunID, err error) error {
	return e.c.explainUnserved(ctx, run, err)
}

// EndUnserved ends a run that was asked to cancel and has not begun, if no worker serves it.
func (e engineClient) EndUnserved(ctx context.Context, run RunID) (ended bool, err error) {
	runs, err := e.c.endUnserved(ctx, run)
	return len(runs) > 0, err
}

// CancelMany requests the cancellation of several runs.
func (e engineClient) CancelMany(ctx context.Context, reason string, runs []RunID) []error {
	return e.c.cancelMany(ctx, reason, runs, e.c.refuseInternals(ctx, "cancel", runs))
}

// Terminate ends a run without executing its code.
func (e engineClient) Terminate(ctx context.Context, run RunID, reason string) error {
	return e.c.Run(run).terminate(ctx, reason)
}

// Orders returns the requests to an open run that its log contains.
func (e engineClient) Orders(ctx context.Context, run RunID) (engine.Orders, error) {
	return e.c.Run(run).orders(ctx)
}

// FindSchedule returns the record of the run of a schedule.
func (e engineClient) FindSchedule(ctx context.Context, name string) (store.Record, error) {
	return e.c.findSchedule(ctx, name)
}
