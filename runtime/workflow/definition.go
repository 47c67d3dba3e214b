package workflow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Registrar is the parameter of generated Register functions: a *worker.Worker.
type Registrar interface{ Registry() *Registry }

// Registry contains the workflows and steps of a worker. Generated code fills it. The zero Registry
// is empty.
type Registry flow.Registry

// DefaultQueue is the queue of a workflow whose directive has no queue=.
const DefaultQueue = "default"

// Definition describes a workflow. The generated code declares one for each workflow. It starts
// runs and returns handles. The methods of the zero Definition panic, and the panic contains the
// fix.
type Definition[In, Out any] flow.Definition

// definition has the methods of a definition that do not depend on its types.
type definition struct{ *flow.DefinitionSpec }

func (d Definition[In, Out]) def() definition { return definition{flow.Definition(d).Spec()} }

// Name returns the stored name of the workflow.
func (d Definition[In, Out]) Name() string { return d.def().Name }

// Start creates a run and returns a handle of it. When it returns without an error, the run is
// durable. With [WithID] it may return the handle of an existing run, see [Run.Created]. If a
// worker of the same client has free capacity, the worker begins the run at once. In that case,
// Start returns when the code of the run waits for the first time, but after at most 100 ms.
//
// Errors: *PayloadError, *ActiveRunError, *FinishedRunError, *InputDiffersError, and an error that
// matches ErrWrongWorkflow if the workflow ID belongs to an active run of another workflow. After
// any other error it is unknown whether the run was created. With a workflow ID, the start can be
// repeated safely.
func (d Definition[In, Out]) Start(ctx context.Context, c *Client, in In, opts ...StartOption) (*Run[Out], error) {
	started, err := d.StartMany(ctx, c, []StartRequest[In]{{Input: in, Options: opts}})
	if err != nil {
		return nil, err
	}
	return started[0].Run, started[0].Err
}

// Execute starts a run, waits until it has ended, and returns its result.
func (d Definition[In, Out]) Execute(ctx context.Context, c *Client, in In, opts ...StartOption) (Out, error) {
	run, err := d.Start(ctx, c, in, opts...)
	if err != nil {
		var zero Out
		return zero, err
	}
	return run.Result(ctx)
}

// StartRequest describes one of the runs that StartMany starts.
type StartRequest[In any] struct {
	Input   In
	Options []StartOption
}

// Started is the outcome of one StartRequest: a handle or an error.
type Started[Out any] struct {
	Run *Run[Out]
	Err error
}

// StartMany starts several runs in one call. Each element of the result has its own error. The
// error of StartMany itself applies to the whole call. If it is about an input or an option, no
// start was sent. After any other error it is unknown which runs were created.
func (d Definition[In, Out]) StartMany(ctx context.Context, c *Client, requests []StartRequest[In]) ([]Started[Out], error) {
	def, in := d.def(), c.inner()
	if err := in.Check(); err != nil {
		return nil, fmt.Errorf("start %s: %w", def.Name, err)
	}
	if in.intercepts() && !event.Internal(def.Name) && len(requests) > 0 {
		return d.startThrough(ctx, in, requests)
	}
	return d.startAll(in, requests, func(int) context.Context { return ctx })
}

// startAll is StartMany without interceptors. contextOf returns the context of a request. The
// requests are sent with the context of the last one.
func (d Definition[In, Out]) startAll(in *client, requests []StartRequest[In], contextOf func(i int) context.Context) ([]Started[Out], error) {
	def := d.def()
	starts := make([]*localstart.Start, len(requests))
	for i, req := range requests {
		start, err := def.start(contextOf(i), in, req.Input, req.Options)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", def.Name, err)
		}
		starts[i] = start
	}
	ctx := contextOf(len(requests) - 1)
	created, err := in.create(ctx, starts)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", def.Name, err)
	}
	all := make([]Started[Out], len(created))
	same := make([]bool, len(created))
	if def.Collect == nil { // skipped for starts that share a run, because their key contains the name of the workflow
		same = def.own(ctx, in, starts, created)
	}
	for i, cr := range created {
		if def.Collect == nil && len(starts[i].Create.Items) > 0 && !cr.New && cr.Run != "" {
			cr, same[i] = def.sendAlong(ctx, in, starts[i], cr, same[i])
		}
		if cr.Err != nil {
			all[i].Err = fmt.Errorf("start %s: %w", def.Name, cr.Err)
			continue
		}
		all[i].Run = &Run[Out]{Handle: in.handle(cr.Run).of(def, true), def: def, created: cr.New, same: same[i], known: true}
	}
	return all, nil
}

// own checks the active runs that starts have found by their workflow IDs. It sets the Err of a
// start if its run belongs to another workflow, or if the run has another input and the start
// requires the same input. It reports which runs have the input of their start. It reads all these
// runs in one request, and the first runs of continued runs in a second one.
func (d definition) own(ctx context.Context, c *client, starts []*localstart.Start, created []store.Created) []bool {
	same := make([]bool, len(created))
	var there []int
	var loads []store.Load
	for i, cr := range created {
		if same[i] = cr.New; cr.Err == nil && !cr.New {
			there, loads = append(there, i), append(loads, store.Load{Run: cr.Run, Limit: 1})
		}
	}
	if len(loads) == 0 {
		return same
	}
	loaded, err := c.store.Load(ctx, loads)
	var firsts []store.Loaded
	if err == nil {
		firsts, err = c.firsts(ctx, loaded)
	}
	for n, i := range there {
		cr := &created[i]
		switch {
		case err != nil:
			cr.Err = fmt.Errorf("read run %s: %w", cr.Run, err)
		case loaded[n].Err != nil:
			cr.Err = fmt.Errorf("read run %s: %w", cr.Run, loaded[n].Err)
		case loaded[n].Record.Route.Workflow != d.Name:
			cr.Err = wrongWorkflow(cr.Run, loaded[n].Record.Route.Workflow, d.Name)
		default:
			var unread error
			if same[i], unread = startedWith(&firsts[n], starts[i].Event.Payload); same[i] || !starts[i].SameInput {
				continue
			}
			if gone := errors.Is(unread, ErrRunNotFound); unread == nil || gone {
				cr.Err = &InputDiffersError{WorkflowID: starts[i].Create.WorkflowID, Run: cr.Run, Unknown: gone}
			} else {
				cr.Err = fmt.Errorf("read the input of run %s: %w", cr.Run, unread)
			}
		}
	}
	return same
}

// Get returns a handle of a run of this workflow. It makes no request.
func (d Definition[In, Out]) Get(c *Client, id RunID) *Run[Out] {
	return &Run[Out]{Handle: c.Run(id).of(d.def(), false), def: d.def()}
}

// GetByID returns a handle of the active run with a workflow ID. If no run is active, the handle
// refers to the latest run. Each method of the handle looks the run up.
func (d Definition[In, Out]) GetByID(c *Client, workflowID string) *Run[Out] {
	return &Run[Out]{Handle: c.RunByID(workflowID).of(d.def(), false), def: d.def()}
}

// input returns the stored form of an input. It returns an error if the input is too large. If quiet
// is set, it does not log a large input.
func (d definition) input(l *flow.Limits, in any, quiet bool) ([]byte, error) {
	data, err := d.encodeInput(in)
	if err != nil {
		return nil, err
	}
	return data, l.Check(d.InputName(), len(data), quiet)
}

func (d definition) encodeInput(in any) ([]byte, error) {
	switch in.(type) {
	case None, *None:
		return nil, nil
	}
	return d.EncodeInput(in)
}

// options returns the options that the directive sets.
func (d definition) options() runOptions {
	return runOptions{queue: d.Queue, timeout: d.Timeout, retention: d.Retention, begin: d.StartWithin}
}

// rank sets the priority of a run. An option takes precedence over the directive, and the directive
// over the inherited priority.
func (d definition) rank(o *runOptions, in any, inherited int) {
	switch {
	case o.ranked || o.err != nil:
	case d.Priority != nil:
		o.priority = d.Priority(in)
	default:
		o.priority = inherited
	}
}

// identify sets the workflow ID of a singleton run: the name of the workflow, a colon and the key.
func (d definition) identify(o *runOptions, in any) {
	switch {
	case d.Singleton == nil || o.err != nil:
	case o.workflowID != "" || o.policy != IDPolicy{}:
		o.err = &InvalidError{What: "workflow id", Value: o.workflowID, Reason: "is given to a singleton, whose id is set by its directive: remove WithID and WithIDPolicy"}
	default:
		o.workflowID, o.policy.Active = d.Name+":"+d.Singleton(in), d.Active
	}
}

// startOptions returns the options of the directive, changed by the options of a start. It sets err
// if the options contradict each other.
func (d definition) startOptions(in any, opts []StartOption) runOptions {
	o := d.options()
	if len(opts) > 0 {
		o = applied(o, opts)
	}
	d.identify(&o, in)
	d.rank(&o, in, 0)
	d.refuseApart(&o)
	if o.err == nil && o.hold > 0 && (o.delay > 0 || !o.at.IsZero()) {
		o.err = errors.New("WithHold: a run on hold begins when it is released: remove WithDelay and WithStartAt")
	}
	return o
}

// applied returns o, changed by the options of a start. Only starts with options allocate the copy
// that the options modify.
func applied(o runOptions, opts []StartOption) runOptions {
	for _, opt := range opts {
		opt.applyStart(&o)
	}
	return o
}

func (d definition) start(ctx context.Context, c *client, in any, opts []StartOption) (*localstart.Start, error) {
	o := d.startOptions(in, opts)
	if o.err != nil {
		return nil, o.err
	}
	attributes, err := flow.RunAttributes(ctx)
	if err != nil {
		return nil, err
	}
	payload, err := d.input(&c.limits, in, false)
	if err != nil {
		return nil, err
	}
	items, err := o.items(ctx, &c.limits, d.Name)
	if err != nil {
		return nil, err
	}
	key := o.workflowID
	var collect *store.Collect
	if g := d.Collect; g != nil {
		key = d.Name + ":" + g.Key(in)
		collect = &store.Collect{Key: key, Keep: g.All, Quiet: g.Quiet, Most: g.Most, Full: g.Full}
	}
	now := c.store.Clock().Now()
	spec, slot, err := d.spec(&o, in, key, now, c.store.Partitions(), &event.Spec{})
	if err == nil {
		err = c.overweight(ctx, spec, slot)
	}
	if err != nil {
		return nil, err
	}
	spec.Hold, spec.Debug, spec.Attributes, spec.Build = o.hold, o.debug, attributes, c.thisBuild()
	run := event.NewRunID(now, slot)
	if spec.Pin, err = c.pin(ctx, run, spec, d.Pin); err != nil {
		return nil, fmt.Errorf("start workflow %s: %w", d.Name, err)
	}
	s := &localstart.Start{
		Create: store.Create{
			Run: run, WorkflowID: o.workflowID, Active: o.policy.Active, Finished: o.policy.Finished,
			Route: store.Route{Queue: spec.RouteQueue(), Workflow: d.Name}, Priority: o.priority, Tags: o.tags,
			Delay: o.delay, At: o.at, Retention: o.retention, Items: items,
		},
		Event: event.Event{
			Seq: 1, Type: event.RunCreated, Time: now.UTC().Truncate(time.Millisecond), // rounded as in the stored form
			Payload: payload, By: flow.Behalf(ctx), Spec: spec,
		},
		SameInput: o.same, Answered: make(chan struct{}),
	}
	permits.Take(&s.Create, spec)
	if o.hold > 0 {
		s.Create.Status, s.Create.Delay = StatusHeld, o.hold
	}
	if o.policy.Active.Lines() {
		s.Create.Cancel, err = effects.Replaced(s.Create.Run)
	}
	if collect != nil {
		s.Create.Collect, s.Event.Payload, spec.Collect = collect, nil, d.collected()
		item, err := effects.Input(s.Create.Run, payload, s.Event.By)
		s.Create.Items = []store.Item{item}
		return s, err
	}
	return s, err
}

// overweight returns a [store.LimitError] if a start needs more permits of a limit than its AtOnce
// and the store would not refuse the start. The store does not refuse it before a worker has
// declared the limit, or if another run takes the permits because of a workflow ID. A configuration
// in the store takes precedence, but overweight reads it only if the start exceeds the declaration
// in this process.
func (c *client) overweight(ctx context.Context, spec *event.Spec, slot uint16) error {
	for _, u := range permits.Stored(permits.Fleet(spec.Uses)) {
		most := permits.Default(u.Name).AtOnce
		if most == 0 || u.Weight <= most {
			continue
		}
		if spec.PermitSlot != 0 {
			slot = uint16(spec.PermitSlot - 1)
		}
		limiter, ok := store.As[store.Limiter](c.store)
		if !ok {
			return store.ErrNoLimits
		}
		states, err := permits.States(ctx, limiter, []int{int(slot) % c.store.Partitions()})
		if err != nil {
			return err
		}
		whole := true // most is the maximum of the limit as a whole
		for _, s := range states {
			switch known := s.Name == u.Name && (s.Set || s.Default); {
			case known && s.Key == u.Key:
				most, whole = s.Config.AtOnce, false
			case known && s.Key == "" && whole:
				most = s.Config.AtOnce
			}
		}
		if most > 0 && u.Weight > most {
			return &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: most}
		}
	}
	return nil
}

// collected returns how the inputs of several starts form the input of their run.
func (d definition) collected() event.Collect {
	switch {
	case d.Collect == nil:
		return event.CollectNone
	case d.Collect.All:
		return event.CollectAll
	}
	return event.CollectLast
}

// refuseApart sets an error for options that cannot apply to a run that several starts share.
func (d definition) refuseApart(o *runOptions) {
	if d.Collect == nil || o.err != nil {
		return
	}
	refused := ""
	switch {
	case o.workflowID != "" || o.policy != IDPolicy{}:
		refused = "WithID and WithIDPolicy"
	case o.delay > 0 || !o.at.IsZero():
		refused = "WithDelay and WithStartAt"
	case o.same:
		refused = "WithSameInput"
	case o.hold > 0 || o.debug:
		refused = "WithHold and WithDebug"
	case o.begin > 0:
		refused = "WithStartBy"
	case len(o.messages) > 0:
		refused = "WithMessage"
	}
	if refused != "" {
		o.err = fmt.Errorf("%s: starts of workflow %s share a run, which begins as the directive declares: remove the option", refused, d.Name)
	}
}

// share returns the fairness key of a run with this input, and the share of the key. An empty key
// means the default key.
func (d definition) share(in any) (key string, share int, err error) {
	if d.Fair == nil {
		return "", 0, nil
	}
	if key, share = d.Fair(in); key == "" {
		return "", 0, nil
	}
	if share < 1 { // a store would treat 0 as 1
		return "", 0, &InvalidError{What: "share of fair key " + key, Value: strconv.Itoa(share), Reason: "is not above zero"}
	}
	return key, share, store.CheckShare(key, share)
}

// spec returns the Spec of a run that is started now with this input. Its limits do not include
// those that the runs above it, whose Spec is by, already hold.
//
// slot is the slot in which the run must be created. The workflow ID or the key of a shared run
// determines it, or otherwise the limits: if a run takes its permits in the action in which a worker
// claims it, it must be in the partition of the limits. If the key determines another partition,
// another run takes the permits, see event.Spec.PermitSlot.
func (d definition) spec(o *runOptions, in any, key string, now time.Time, partitions int, by *event.Spec) (s *event.Spec, slot uint16, err error) {
	s = &event.Spec{
		Workflow: d.Name, Queue: o.queue, WorkflowID: o.workflowID, Tags: o.tags, Timeout: o.timeout,
		Retention: o.retention, Priority: o.priority, StartWithin: o.begin, StartAt: event.Instant(o.at),
	}
	if o.delay > 0 {
		s.StartAt = event.Instant(later(now.Add(o.delay), o.at))
	}
	if s.Fair, s.Share, err = d.share(in); err != nil {
		return nil, 0, err
	}
	slot = event.RandomSlot()
	if key != "" {
		slot = event.SlotOf(key)
	}
	if d.Uses == nil {
		return s, slot, nil
	}
	uses, home, err := permits.Merge(d.Uses(in))
	s.Uses = permits.Missing(uses, by)
	switch s.Whole = len(permits.Fleet(s.Uses)) > 0; {
	case !s.Whole: // limits that apply to each worker allow the run to be in any partition
	case key == "":
		slot = home
	case int(slot)%partitions != int(home)%partitions:
		s.PermitSlot = int(home) + 1
	}
	return s, slot, err
}
