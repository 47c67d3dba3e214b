package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// DefaultQueue is the queue of a workflow whose directive has no queue=.
const DefaultQueue = "default"

// Definition describes a workflow. The generated code declares one for each workflow. It starts
// runs and returns handles. The methods of the zero Definition panic, and the panic contains the
// fix.
type Definition[In, Out any] struct{ d *definition }

type definition struct {
	name      string
	param     string // name under which the input is stored; empty: the input itself is the stored object
	queue     string
	timeout   time.Duration
	retention time.Duration
	children  int    // maximum number of open children; 0: flow.DefaultChildren
	schedule  string // schedule of the directive; empty: none
	path      string // import path of the input's package, for messages
	singleton func(input any) string
	active    ActivePolicy  // what a start does if a run with the same singleton key is active
	collect   *flow.Collect // determines which starts share a run; nil: each start creates its own run
	priority  func(input any) int
	fair      func(input any) (key string, share int)
	begin     time.Duration // time within which a run must begin; 0: unlimited
	uses      func(input any) []permits.Use
	rerun     flow.Retry // policy for automatic reruns of failed runs; zero: none
	in, out   reflect.Type

	inputName, outputName string // descriptions of the input and the result for error texts
}

// define sets d to the workflow that s describes.
func (d *Definition[In, Out]) define(s flow.DefinitionSpec) {
	d.d = &definition{
		name: s.Name, param: s.Param, queue: cmp.Or(s.Queue, DefaultQueue), timeout: s.Timeout, retention: s.Retention, children: s.Children, schedule: s.Schedule,
		singleton: s.Singleton, active: s.Active, collect: s.Collect, priority: s.Priority, fair: s.Fair, begin: s.StartWithin, uses: s.Uses, rerun: s.Rerun, path: reflect.TypeFor[In]().PkgPath(),
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](), inputName: "input of workflow " + s.Name, outputName: "result of workflow " + s.Name,
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
	def := d.def()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("start %s: %w", def.name, err)
	}
	starts := make([]*localstart.Start, len(requests))
	for i, req := range requests {
		start, err := def.start(ctx, c, req.Input, req.Options)
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
	same := make([]bool, len(created))
	if def.collect == nil { // skipped for starts that share a run, because their key contains the name of the workflow
		same = def.own(ctx, c, starts, created)
	}
	for i, cr := range created {
		if def.collect == nil && len(starts[i].Create.Items) > 0 && !cr.New && cr.Run != "" {
			cr, same[i] = def.sendAlong(ctx, c, starts[i], cr, same[i])
		}
		if cr.Err != nil {
			all[i].Err = fmt.Errorf("start %s: %w", def.name, cr.Err)
			continue
		}
		all[i].Run = &Run[Out]{Handle: c.Run(cr.Run).of(def, true), def: def, created: cr.New, same: same[i], known: true}
	}
	return all, nil
}

// own checks the active runs that starts have found by their workflow IDs. It sets the Err of a
// start if its run belongs to another workflow, or if the run has another input and the start
// requires the same input. It reports which runs have the input of their start. It reads all these
// runs in one request, and the first runs of continued runs in a second one.
func (d *definition) own(ctx context.Context, c *Client, starts []*localstart.Start, created []store.Created) []bool {
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
		case loaded[n].Record.Route.Workflow != d.name:
			cr.Err = wrongWorkflow(cr.Run, loaded[n].Record.Route.Workflow, d.name)
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

// input returns the stored form of an input. It returns an error if the input is too large.
func (d *definition) input(c *Client, in any) ([]byte, error) {
	data, err := d.encodeInput(in)
	if err != nil {
		return nil, err
	}
	return data, c.limits.Check(d.inputName, len(data), false)
}

// encodeInput returns the stored form of an input: a JSON object whose members are named like the
// parameters.
func (d *definition) encodeInput(in any) ([]byte, error) {
	switch in.(type) {
	case None, *None:
		return nil, nil
	}
	data, err := flow.Marshal(d.inputName, in)
	if err != nil || d.param == "" {
		return data, err
	}
	name, _ := json.Marshal(d.param) // Marshal cannot fail for a string
	wrapped := make([]byte, 0, len(data)+len(name)+3)
	return append(append(append(append(append(wrapped, '{'), name...), ':'), data...), '}'), nil
}

// refuseRenamed blocks the run, and does not return, if a field of its input was renamed. in is the
// decoded input.
func (d *definition) refuseRenamed(ctx Context, stored []byte, in any) {
	today, err := d.encodeInput(in)
	if err != nil {
		return
	}
	if r := replay.FindRenaming(stored, today); r != nil {
		b := ctx.branch()
		b.Block(&replay.RenamedError{Run: b.Run().ID(), What: d.inputName, Directive: "//flow:workflow", Renaming: *r})
	}
}

// decodeInput decodes the result of encodeInput. all is false if the stored data has fields that
// the type of into does not have.
func (d *definition) decodeInput(data []byte, into any) (all bool, err error) {
	what := d.inputName
	if d.param == "" {
		return flow.DecodeAll(what, data, into)
	}
	var object map[string]json.RawMessage
	if err := flow.Decode(what, data, &object); err != nil {
		return false, err
	}
	value, ok := object[d.param]
	for name := range object {
		if !ok && strings.EqualFold(name, d.param) { // the case of letters does not matter, as for the fields of an object
			value, ok = object[name], true
		}
	}
	all, err = flow.DecodeAll(what, value, into)
	return all && (len(object) == 0 || ok && len(object) == 1), err
}

// options returns the options that the directive sets.
func (d *definition) options() runOptions {
	return runOptions{queue: d.queue, timeout: d.timeout, retention: d.retention, begin: d.begin}
}

// rank sets the priority of a run. An option takes precedence over the directive, and the directive
// over the inherited priority.
func (d *definition) rank(o *runOptions, in any, inherited int) {
	switch {
	case o.ranked || o.err != nil:
	case d.priority != nil:
		o.priority = d.priority(in)
	default:
		o.priority = inherited
	}
}

// identify sets the workflow ID of a singleton run: the name of the workflow, a colon and the key.
func (d *definition) identify(o *runOptions, in any) {
	switch {
	case d.singleton == nil || o.err != nil:
	case o.workflowID != "" || o.policy != IDPolicy{}:
		o.err = &InvalidError{What: "workflow id", Value: o.workflowID, Reason: "is given to a singleton, whose id is set by its directive: remove WithID and WithIDPolicy"}
	default:
		o.workflowID, o.policy.Active = d.name+":"+d.singleton(in), d.active
	}
}

// startOptions returns the options of the directive, changed by the options of a start. It sets err
// if the options contradict each other.
func (d *definition) startOptions(in any, opts []StartOption) runOptions {
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

func (d *definition) start(ctx context.Context, c *Client, in any, opts []StartOption) (*localstart.Start, error) {
	o := d.startOptions(in, opts)
	if o.err != nil {
		return nil, o.err
	}
	payload, err := d.input(c, in)
	if err != nil {
		return nil, err
	}
	items, err := o.items(&c.limits, flow.Behalf(ctx), event.Internal(d.name))
	if err != nil {
		return nil, err
	}
	collect := d.collecting(in)
	key := o.workflowID
	if collect != nil {
		key = collect.Key
	}
	uses, slot, permitSlot, err := d.placed(in, key, c.store.Partitions(), &event.Spec{})
	if err == nil {
		err = c.overweight(ctx, uses, slot, permitSlot)
	}
	if err != nil {
		return nil, err
	}
	fair, share, err := d.share(in)
	if err != nil {
		return nil, err
	}
	now := c.store.Clock().Now()
	startAt := o.at
	if t := now.Add(o.delay); o.delay > 0 && t.After(startAt) {
		startAt = t
	}
	s := &localstart.Start{
		Create: store.Create{
			Run: event.NewRunID(now, slot), WorkflowID: o.workflowID, Active: o.policy.Active, Finished: o.policy.Finished,
			Route: store.Route{Queue: o.queue, Workflow: d.name}, Priority: o.priority, Tags: o.tags,
			Delay: o.delay, At: o.at, Retention: o.retention, Items: items,
		},
		Event: event.Event{
			Seq: 1, Type: event.RunCreated, Time: now.UTC().Truncate(time.Millisecond), Payload: payload, By: flow.Behalf(ctx), // rounded as in the stored form
			Spec: &event.Spec{
				Workflow: d.name, Queue: o.queue, WorkflowID: o.workflowID, Tags: o.tags,
				Timeout: o.timeout, Retention: o.retention, Priority: o.priority, StartWithin: o.begin,
				StartAt: event.Instant(startAt), Hold: o.hold, Debug: o.debug, Uses: uses, Whole: len(permits.Fleet(uses)) > 0, PermitSlot: permitSlot, Fair: fair, Share: share,
			},
		},
		SameInput: o.same, Answered: make(chan struct{}),
	}
	permits.Take(&s.Create, s.Event.Spec)
	if o.hold > 0 {
		s.Create.Status, s.Create.Delay = StatusHeld, o.hold
	}
	if o.policy.Active.Lines() {
		s.Create.Cancel, err = effects.Replaced(s.Create.Run)
	}
	if collect != nil {
		s.Create.Collect, s.Event.Payload, s.Event.Spec.Collect = collect, nil, d.collected()
		item, err := effects.Input(s.Create.Run, payload, s.Event.By)
		s.Create.Items = []store.Item{item}
		return s, err
	}
	return s, err
}

// collecting returns how a start with this input shares its run, or nil if it does not.
func (d *definition) collecting(in any) *store.Collect {
	g := d.collect
	if g == nil {
		return nil
	}
	return &store.Collect{Key: d.name + ":" + g.Key(in), Keep: g.All, Quiet: g.Quiet, Most: g.Most, Full: g.Full}
}

// collected returns how the inputs of several starts form the input of their run.
func (d *definition) collected() event.Collect {
	switch {
	case d.collect == nil:
		return event.CollectNone
	case d.collect.All:
		return event.CollectAll
	}
	return event.CollectLast
}

// refuseApart sets an error for options that cannot apply to a run that several starts share.
func (d *definition) refuseApart(o *runOptions) {
	if d.collect == nil || o.err != nil {
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
		o.err = fmt.Errorf("%s: starts of workflow %s share a run, which begins as the directive declares: remove the option", refused, d.name)
	}
}

// share returns the fairness key of a run with this input, and the share of the key. An empty key
// means the default key.
func (d *definition) share(in any) (key string, share int, err error) {
	if d.fair == nil {
		return "", 0, nil
	}
	if key, share = d.fair(in); key == "" {
		return "", 0, nil
	}
	if share < 1 { // a store would treat 0 as 1
		return "", 0, &InvalidError{What: "share of fair key " + key, Value: strconv.Itoa(share), Reason: "is not above zero"}
	}
	return key, share, store.CheckShare(key, share)
}

// placed returns the limits that a run with this input uses, without limits that the runs above it
// already hold.
//
// slot is the slot in which the run must be created. The workflow ID determines it, or otherwise
// the limits: if a run takes its permits in the action in which a worker claims it, it must be in
// the partition of the limits. If the workflow ID determines another partition, permitSlot is the
// value of event.Spec.PermitSlot.
func (d *definition) placed(in any, workflowID string, partitions int, by *event.Spec) (uses []event.Use, slot uint16, permitSlot int, err error) {
	slot = event.RandomSlot()
	if workflowID != "" {
		slot = event.SlotOf(workflowID)
	}
	if d.uses == nil {
		return nil, slot, 0, nil
	}
	uses, home, err := permits.Merge(d.uses(in))
	uses = permits.Missing(uses, by)
	switch {
	case err != nil || len(uses) == 0:
		return nil, slot, 0, err
	case len(permits.Fleet(uses)) == 0: // the limits apply to each worker, so the run may be in any partition
	case workflowID == "":
		slot = home
	case int(slot)%partitions != int(home)%partitions:
		permitSlot = int(home) + 1
	}
	return uses, slot, permitSlot, nil
}

// standInTimeout is longer than the execution of any stand-in.
const standInTimeout = 200 * 365 * 24 * time.Hour

// standIn replaces the code of the workflow by fake, which is a func(context.Context, In) (Out,
// error) or a function that receives the inputs of several starts. It returns the code that calls
// fake.
func (d Definition[In, Out]) standIn(r *registry, fake any) flow.StepFunc {
	if all, ok := fake.(func(context.Context, []In) (Out, error)); ok {
		return standIn(r, d.def(), all)
	}
	return standIn(r, d.def(), fake.(func(context.Context, In) (Out, error)))
}

// standIn registers the stand-in of a workflow and returns the code that calls it. In is the type
// of the stored input.
func standIn[In, Out any](r *registry, def *definition, code func(context.Context, In) (Out, error)) flow.StepFunc {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit("stand-in for workflow", def.name, "a stand-in", func() (string, bool) { return "", false })
	r.put(&boundWorkflow{def: def, code: "a stand-in", standIn: standInPlan(def.name)})
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var in In
		if _, err := def.decodeInput(args, &in); err != nil {
			return nil, err
		}
		var out Out
		if code != nil {
			var err error
			if out, err = code(ctx, in); err != nil {
				return nil, err
			}
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		return flow.EncodePayload("result of the stand-in for workflow", def.name, out)
	}
}

func standInPlan(name string) *flow.StepPlan {
	spec := &flow.StepSpec{
		Name: name, Timeout: standInTimeout,
		Retry: flow.Retry{Attempts: math.MaxInt32, Initial: time.Nanosecond, Max: time.Nanosecond},
		Fatal: func(error) bool { return true }, // the first failure is final, because a failed workflow is not retried
	}
	return flow.NewPlan(spec)
}

// standInProgram returns the code of a run of a workflow that has a stand-in.
func standInProgram(plan *flow.StepPlan) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		op := b.Step(s, plan.Spec.Name, b.Key(plan.Spec.Name), input, plan, func([]byte) string { return "" })
		b.AwaitStep(op)
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		failed := *op.Failure
		switch {
		case failed.Code == event.CodeCanceled && errors.Is(s.Err(), ErrCanceled):
			return replay.Ending{Type: event.RunCanceled, Failure: &failed}
		case failed.Code == event.CodeFatal:
			failed.Code = event.CodeError
		}
		return replay.Ending{Type: event.RunFailed, Failure: &failed}
	}
}
