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
