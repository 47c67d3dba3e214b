package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
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
	singleton func(input any) string
	active    ActivePolicy   // of a singleton
	gather    *engine.Gather // nil: each start has a run of its own
	priority  func(input any) int
	fair      func(input any) (key string, share int)
	begin     time.Duration // within which a run must have begun; 0: at any time
	uses      func(input any) []permits.Use
	rerun     engine.Retry // of failed runs; zero: none
	in, out   reflect.Type
}

// define makes d what the spec says.
func (d *Definition[In, Out]) define(s engine.DefinitionSpec) {
	d.d = &definition{
		name: s.Name, param: s.Param, queue: cmp.Or(s.Queue, DefaultQueue), timeout: s.Timeout, retention: s.Retention, children: s.Children, schedule: s.Schedule,
		singleton: s.Singleton, active: s.Active, gather: s.Gather, priority: s.Priority, fair: s.Fair, begin: s.StartWithin, uses: s.Uses, rerun: s.Rerun, path: reflect.TypeFor[In]().PkgPath(),
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
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
// Errors: *PayloadError, *ActiveRunError, *FinishedRunError, *InputDiffersError, and a
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
	if def.gather == nil { // the key of starts that share a run has the name of the workflow in it
		same = def.own(ctx, c, starts, created)
	}
	for i, cr := range created {
		if def.gather == nil && len(starts[i].Create.Items) > 0 && !cr.New && cr.Run != "" {
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

// own refuses active runs of workflow ids that are of another workflow, or that must have the input of the start and do not: it
// sets their Err. It reports which runs have the input. All active runs are looked up in one request, and the first runs of those
// that continue others in a second one.
func (d *definition) own(ctx context.Context, c *Client, starts []*handover.Start, created []store.Created) []bool {
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

// Get returns a handle of a run of this workflow. It makes no round trip.
func (d Definition[In, Out]) Get(c *Client, id RunID) *Run[Out] {
	return &Run[Out]{Handle: c.Run(id).of(d.def(), false), def: d.def()}
}

// GetByID returns a handle of the active run of a workflow id, else of its
// latest run. The run is looked up at each use.
func (d Definition[In, Out]) GetByID(c *Client, workflowID string) *Run[Out] {
	return &Run[Out]{Handle: c.RunByID(workflowID).of(d.def(), false), def: d.def()}
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

// options returns what the directive says of a run, before the options that a start has.
func (d *definition) options() runOptions {
	return runOptions{queue: d.queue, timeout: d.timeout, retention: d.retention, begin: d.begin}
}

// rank decides the priority of a run: an option goes before the directive, and that before
// the priority of what it is started by.
func (d *definition) rank(o *runOptions, in any, inherited int) {
	switch {
	case o.ranked || o.err != nil:
	case d.priority != nil:
		o.priority = d.priority(in)
	default:
		o.priority = inherited
	}
}

// identify gives the run of a singleton its workflow id: the name of the workflow, a colon and
// the key.
func (d *definition) identify(o *runOptions, in any) {
	switch {
	case d.singleton == nil || o.err != nil:
	case o.workflowID != "" || o.policy != IDPolicy{}:
		o.err = &InvalidError{What: "workflow id", Value: o.workflowID, Reason: "is given to a singleton, whose id is that of its directive: leave out WithID and WithIDPolicy"}
	default:
		o.workflowID, o.policy.Active = d.name+":"+d.singleton(in), d.active
	}
}

// startOptions returns what the directive and the options of a start say of its run. Its err is set if they contradict each other.
func (d *definition) startOptions(in any, opts []StartOption) runOptions {
	o := d.options()
	for _, opt := range opts {
		opt.applyStart(&o)
	}
	d.identify(&o, in)
	d.rank(&o, in, 0)
	d.refuseApart(&o)
	if o.err == nil && o.hold > 0 && (o.delay > 0 || !o.at.IsZero()) {
		o.err = errors.New("WithHold: a run that is held begins when it is released, and not by WithDelay or WithStartAt")
	}
	return o
}

func (d *definition) start(ctx context.Context, c *Client, in any, opts []StartOption) (*handover.Start, error) {
	o := d.startOptions(in, opts)
	if o.err != nil {
		return nil, o.err
	}
	payload, err := d.input(c, in)
	if err != nil {
		return nil, err
	}
	items, err := o.items(&c.limits, behalf(ctx), event.Internal(d.name))
	if err != nil {
		return nil, err
	}
	gather := d.gathering(in)
	key := o.workflowID
	if gather != nil {
		key = gather.Key
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
	s := &handover.Start{
		Create: store.Create{
			Run: event.NewRunID(now, slot), WorkflowID: o.workflowID, Active: o.policy.Active, Finished: o.policy.Finished,
			Route: store.Route{Queue: o.queue, Workflow: d.name}, Priority: o.priority, Tags: o.tags,
			Delay: o.delay, At: o.at, Retention: o.retention, Items: items,
		},
		Event: event.Event{
			Seq: 1, Type: event.RunCreated, Time: now.UTC().Truncate(time.Millisecond), Payload: payload, By: behalf(ctx), // as it is read back
			Spec: &event.Spec{
				Workflow: d.name, Queue: o.queue, WorkflowID: o.workflowID, Tags: o.tags,
				Timeout: o.timeout, Retention: o.retention, Priority: o.priority, StartWithin: o.begin,
				StartAt: event.Instant(startAt), Hold: o.hold, Debug: o.debug, Uses: uses, Whole: len(permits.Fleet(uses)) > 0, PermitSlot: permitSlot, Fair: fair, Share: share,
			},
		},
		SameInput: o.same, Answers: make(chan handover.Answer, 1),
	}
	permits.Take(&s.Create, s.Event.Spec)
	if o.hold > 0 {
		s.Create.Status, s.Create.Delay = StatusHeld, o.hold
	}
	if o.policy.Active.Lines() {
		s.Create.Cancel, err = effects.Replaced(s.Create.Run)
	}
	if gather != nil {
		s.Create.Gather, s.Event.Payload, s.Event.Spec.Gather = gather, nil, d.gathered()
		item, err := effects.Input(s.Create.Run, payload, s.Event.By)
		s.Create.Items = []store.Item{item}
		return s, err
	}
	return s, err
}

// gathering returns how a start with an input shares its run; nil: it does not.
func (d *definition) gathering(in any) *store.Gather {
	g := d.gather
	if g == nil {
		return nil
	}
	return &store.Gather{Key: d.name + ":" + g.Key(in), Keep: g.All, Quiet: g.Quiet, Most: g.Most, Full: g.Full}
}

// gathered returns what the inputs of several starts make of that of a run.
func (d *definition) gathered() event.Gather {
	switch {
	case d.gather == nil:
		return event.GatherNone
	case d.gather.All:
		return event.GatherAll
	}
	return event.GatherLast
}

// refuseApart refuses options that only one of the starts that share a run would have.
func (d *definition) refuseApart(o *runOptions) {
	if d.gather == nil || o.err != nil {
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
		o.err = fmt.Errorf("%s: starts of workflow %s share a run, which begins when the directive says: leave it out", refused, d.name)
	}
}

// share returns the fair key of a run with an input, and its share; empty: it has none of
// its own.
func (d *definition) share(in any) (key string, share int, err error) {
	if d.fair == nil {
		return "", 0, nil
	}
	if key, share = d.fair(in); key == "" {
		return "", 0, nil
	}
	if share < 1 { // a share of 0 is none to a store, which takes it for 1
		return "", 0, &InvalidError{What: "share of fair key " + key, Value: strconv.Itoa(share), Reason: "is not above zero"}
	}
	return key, share, store.CheckShare(key, share)
}

// placed returns the limits that a run with an input uses, the slot in which it must be, that
// of its workflow id or of its limits, and event.Spec.PermitSlot. A run that takes its permits
// in the action that gives it to a worker can be in one partition only. What those above it
// hold it does not use.
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
	case len(permits.Fleet(uses)) == 0: // any worker that has room
	case workflowID == "":
		slot = home
	case int(slot)%partitions != int(home)%partitions:
		permitSlot = int(home) + 1
	}
	return uses, slot, permitSlot, nil
}
