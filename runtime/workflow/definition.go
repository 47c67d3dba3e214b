package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// DefaultQueue is the queue of workflows that name none.
const DefaultQueue = "default"

// Definition describes a workflow; generated code declares one for each. It
// starts runs and gives handles of them. The zero Definition panics with the
// fix.
type Definition[In, Out any] struct{ d *definition }

type definition struct {
	name      string
	param     string // the name under which the input is stored; empty: it is the object itself
	queue     string
	timeout   time.Duration
	retention time.Duration
	children  int    // at once; 0: DefaultChildren
	schedule  string // of its directive; empty: none
	path      string // import path of the input's package, for messages
	uses      func(input any) []permits.Use
}

// define makes d what the spec says.
func (d *Definition[In, Out]) define(s engine.DefinitionSpec) {
	d.d = &definition{
		name: s.Name, param: s.Param, queue: cmp.Or(s.Queue, DefaultQueue), timeout: s.Timeout, retention: s.Retention, children: s.Children, schedule: s.Schedule, uses: s.Uses,
		path: reflect.TypeFor[In]().PkgPath(),
	}
}

func (d Definition[In, Out]) def() *definition {
	if d.d == nil {
		panic("workflow: zero Definition: annotate a function with //flow:workflow, run go generate, and use the variable that it declares")
	}
	return d.d
}

// Name returns the stored name of the workflow.
func (d Definition[In, Out]) Name() string { return d.def().name }

// Start creates a run and returns a handle of it. When it returns without an
// error the run is durable. With [WithID] it may return the handle of a run that
// existed already: see [Run.Created]. A worker on the same client begins the run
// at once if it has room: its code up to its first wait comes before Start returns, but
// Start waits no longer than a tenth of a second for that.
//
// Errors: *PayloadError, *ActiveRunError, *FinishedRunError, and a
// one that matches ErrWrongWorkflow if the workflow id belongs to an active run of another
// workflow. After any other
// error it is not known whether the run was created; a workflow id makes it safe
// to start again.
func (d Definition[In, Out]) Start(ctx context.Context, c *Client, in In, opts ...StartOption) (*Run[Out], error) {
	started, err := d.StartMany(ctx, c, []StartRequest[In]{{Input: in, Options: opts}})
	if err != nil {
		return nil, err
	}
	return started[0].Run, started[0].Err
}

// Execute starts a run and waits for its result.
func (d Definition[In, Out]) Execute(ctx context.Context, c *Client, in In, opts ...StartOption) (Out, error) {
	run, err := d.Start(ctx, c, in, opts...)
	if err != nil {
		var zero Out
		return zero, err
	}
	return run.Result(ctx)
}

// StartRequest is one of the runs that StartMany starts.
type StartRequest[In any] struct {
	Input   In
	Options []StartOption
}

// Started is the answer to a StartRequest: a handle or an error.
type Started[Out any] struct {
	Run *Run[Out]
	Err error
}

// StartMany starts many runs in one call. The error is for the call as a whole,
// and then it is not known which runs were created, unless it is an error of an input
// or option: then nothing was sent. Each answer has an error of its own.
func (d Definition[In, Out]) StartMany(ctx context.Context, c *Client, requests []StartRequest[In]) ([]Started[Out], error) {
	def := d.def()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("start %s: %w", def.name, err)
	}
	starts := make([]*handover.Start, len(requests))
	for i, req := range requests {
		start, err := def.start(c, req.Input, req.Options)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", def.name, err)
		}
		starts[i] = start
	}
	created, err := c.create(ctx, starts)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", def.name, err)
	}
	all := make([]Started[Out], len(created))
	def.own(ctx, c, created)
	for i, cr := range created {
		if len(starts[i].Create.Items) > 0 && !cr.New && cr.Run != "" {
			cr = def.sendAlong(ctx, c, starts[i], cr)
		}
		if cr.Err != nil {
			all[i].Err = fmt.Errorf("start %s: %w", def.name, cr.Err)
			continue
		}
		all[i].Run = &Run[Out]{Handle: c.Run(cr.Run), def: def, created: cr.New}
	}
	return all, nil
}

// own refuses active runs of workflow ids that are of another workflow: their Err says
// so. All of them are looked up in one request.
func (d *definition) own(ctx context.Context, c *Client, created []store.Created) {
	var there []int
	var loads []store.Load
	for i, cr := range created {
		if cr.Err == nil && !cr.New {
			there, loads = append(there, i), append(loads, store.Load{Run: cr.Run, Limit: -1})
		}
	}
	if len(loads) == 0 {
		return
	}
	loaded, err := c.store.Load(ctx, loads)
	for n, i := range there {
		cr := &created[i]
		switch {
		case err != nil:
			cr.Err = fmt.Errorf("read run %s: %w", cr.Run, err)
		case loaded[n].Err != nil:
			cr.Err = fmt.Errorf("read run %s: %w", cr.Run, loaded[n].Err)
		case loaded[n].Record.Route.Workflow != d.name:
			cr.Err = wrongWorkflow(cr.Run, loaded[n].Record.Route.Workflow, d.name)
		}
	}
}

// Get returns a handle of a run of this workflow. It makes no round trip.
func (d Definition[In, Out]) Get(c *Client, id RunID) *Run[Out] {
	return &Run[Out]{Handle: c.Run(id), def: d.def()}
}

// GetByID returns a handle of the active run of a workflow id, else of its
// latest run. The run is looked up at each use.
func (d Definition[In, Out]) GetByID(c *Client, workflowID string) *Run[Out] {
	return &Run[Out]{Handle: c.RunByID(workflowID), def: d.def()}
}

// inputName names the input in errors.
func (d *definition) inputName() string { return "input of workflow " + d.name }

// input returns the stored form of an input that is not too large.
func (d *definition) input(c *Client, in any) ([]byte, error) {
	data, err := d.encodeInput(in)
	if err != nil {
		return nil, err
	}
	return data, c.limits.check(d.inputName(), len(data), false)
}

// encodeInput returns the stored form of an input: a JSON object by parameter name.
func (d *definition) encodeInput(in any) ([]byte, error) {
	switch in.(type) {
	case None, *None:
		return nil, nil
	}
	data, err := marshal(d.inputName(), in)
	if err != nil || d.param == "" {
		return data, err
	}
	name, _ := json.Marshal(d.param) // a string always encodes
	wrapped := make([]byte, 0, len(data)+len(name)+3)
	return append(append(append(append(append(wrapped, '{'), name...), ':'), data...), '}'), nil
}

func (d *definition) start(c *Client, in any, opts []StartOption) (*handover.Start, error) {
	o := runOptions{queue: d.queue, timeout: d.timeout, retention: d.retention}
	for _, opt := range opts {
		opt.applyStart(&o)
	}
	if o.err == nil && o.hold > 0 && (o.delay > 0 || !o.at.IsZero()) {
		o.err = errors.New("WithHold: a run that is held begins when it is released, and not by WithDelay or WithStartAt")
	}
	if o.err != nil {
		return nil, o.err
	}
	payload, err := d.input(c, in)
	if err != nil {
		return nil, err
	}
	items, err := o.items(&c.limits)
	if err != nil {
		return nil, err
	}
	uses, slot, err := d.placed(in, o.workflowID, c.store.Partitions(), &event.Spec{})
	if err != nil {
		return nil, err
	}
	now := c.store.Clock().Now()
	startAt := o.at
	if t := now.Add(o.delay); o.delay > 0 && t.After(startAt) {
		startAt = t
	}
	s := &handover.Start{
		Create: store.Create{
			Run: event.NewRunID(now, slot), WorkflowID: o.workflowID, Active: o.policy.Active, Finished: o.policy.Finished,
			Route: store.Route{Queue: o.queue, Workflow: d.name}, Priority: o.priority, Tags: o.tags,
			Delay: o.delay, At: o.at, Retention: o.retention, Items: items, Uses: permits.Stored(uses), Whole: len(uses) > 0,
		},
		Event: event.Event{
			Seq: 1, Type: event.RunCreated, Time: now.UTC().Truncate(time.Millisecond), Payload: payload, // as it is read back
			Spec: &event.Spec{
				Workflow: d.name, Queue: o.queue, WorkflowID: o.workflowID, Tags: o.tags,
				Timeout: o.timeout, Retention: o.retention, Priority: o.priority,
				StartAt: event.Instant(startAt), Hold: o.hold, Debug: o.debug, Uses: uses, Whole: len(uses) > 0,
			},
		},
		Answers: make(chan handover.Answer, 1),
	}
	if o.hold > 0 {
		s.Create.Status, s.Create.Delay = StatusHeld, o.hold
	}
	if o.policy.Active == CancelActive {
		s.Create.Cancel, err = effects.Replaced(s.Create.Run)
	}
	return s, err
}

// placed returns the limits that a run with an input uses, and the slot in which it must be:
// that of its workflow id, or of its limits. A run that takes its permits in the action that
// gives it to a worker can be in one partition only. What those above it hold it does not use.
func (d *definition) placed(in any, workflowID string, partitions int, by *event.Spec) ([]event.Use, uint16, error) {
	slot := event.RandomSlot()
	if workflowID != "" {
		slot = event.SlotOf(workflowID)
	}
	if d.uses == nil {
		return nil, slot, nil
	}
	uses, home, err := permits.Merge(d.uses(in))
	uses = permits.Missing(uses, by)
	if err != nil || len(uses) == 0 {
		return nil, slot, err
	}
	if workflowID == "" {
		return uses, home, nil
	}
	if int(slot)%partitions != int(home)%partitions {
		return nil, 0, &LimitedIDError{Workflow: d.name, WorkflowID: workflowID, Limit: uses[0].Limit}
	}
	return uses, slot, nil
}

// LimitedIDError says that a run with a workflow id cannot use a limit, because both are kept in
// one partition each, and these are not the same one. A store with one partition, such as
// SQLite, has no such case.
type LimitedIDError struct {
	Workflow   string
	WorkflowID string
	Limit      string
}

// Error names the workflow, its id and the limit, and says what to do.
func (e *LimitedIDError) Error() string {
	return fmt.Sprintf("workflow %s uses limit %s, and %q is kept in another partition than that: start it without a workflow id, "+
		"let a step use the limit, or use a store with one partition", e.Workflow, e.Limit, e.WorkflowID)
}
