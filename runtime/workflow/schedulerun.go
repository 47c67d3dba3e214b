package workflow

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
)

// The definition of the workflow whose runs implement schedules, and its code. Every worker can
// execute these runs.
var (
	schedules = Definition[scheduleState, None](flow.NewDefinition(&flow.DefinitionSpec{Name: event.ScheduleRun, Queue: DefaultQueue}))
	// scheduleOrders is the topic of orders to a schedule. scheduleShown is the value that contains
	// its published state.
	scheduleOrders = NewTopic[scheduleOrder](event.ScheduleRun)
	scheduleShown  = NewValue[schedule.Info](event.ScheduleRun)

	scheduleCode = flow.CodeOf[None](schedules.def().DefinitionSpec, func(ctx flow.Context, s scheduleState) (None, error) {
		return runSchedule(Context(ctx), s)
	})
)

// scheduleState is the input of the run of a schedule. A run passes it to its continuation.
type scheduleState struct {
	Name string     `json:"name"`
	Does *scheduled `json:"does"`
	// Next is the first tick without a decision. It is zero if none is known.
	Next      time.Time           `json:"next,omitzero"`
	Begun     bool                `json:"begun,omitempty"`
	Paused    bool                `json:"paused,omitempty"`
	Note      string              `json:"note,omitempty"`
	Problem   string              `json:"problem,omitempty"`
	Backfills []schedule.Backfill `json:"backfills,omitempty"` // unfinished parts of backfills
	Started   int                 `json:"started,omitempty"`
	Skipped   int                 `json:"skipped,omitempty"`
	Missed    int                 `json:"missed,omitempty"`
	Recent    []schedule.Start    `json:"recent,omitempty"`
	Declared  *declaration        `json:"declared,omitempty"` // last declaration that was applied
}

// info returns the state that the schedule publishes.
func (s *scheduleState) info(run RunID) schedule.Info {
	info := schedule.Info{
		Name: s.Name, Spec: s.Does.Spec, Workflow: s.Does.Workflow, Queue: s.Does.Queue, Paused: s.Paused, Note: s.Note,
		Next: s.Next, Problem: s.Problem, Backfills: s.Backfills, Started: s.Started, Skipped: s.Skipped, Missed: s.Missed, Recent: s.Recent, Run: run,
	}
	if s.Paused {
		info.Next = time.Time{}
	}
	return info
}

// scheduleOrder is a request to a schedule, from an operator or from the code that declares the
// schedule.
type scheduleOrder struct {
	flow.ScheduleOrder[schedule.Spec, schedule.Backfill]
	Set     *scheduled   `json:"set,omitempty"`
	Declare *declaration `json:"declare,omitempty"`
}

// Replays of schedules use these constants. To change one, use [Version].
const (
	// startsPerRun is the number of runs that a run of a schedule starts before it continues as
	// new. eventsPerRun is the length of its log at which it continues as new.
	startsPerRun, eventsPerRun = 100, 4_000
	// startsOpen is the maximum number of starts that wait for a response.
	startsOpen = 100
	// recentStarts is the number of last starts that a schedule keeps.
	recentStarts = 10
	// lookAgainAfter is the delay before a schedule is rechecked if this machine can compute no
	// tick for it. Another machine may execute the schedule then.
	lookAgainAfter = time.Hour
)

// startsWanted is the number of starts after which an idle run of a schedule continues as new. A
// worker that claims the run for a tick replays its log, so the log should be short. The value may
// change between releases, because the log records the decision to continue.
var startsWanted = 20

// scheduling is the state of a schedule while its run executes.
type scheduling struct {
	ctx     Context
	state   scheduleState
	open    []*startCase
	starts  int
	changed bool   // the state has changed since it was published
	said    string // problem that the last recheck was about
}

// runSchedule is the workflow code of schedules. It sleeps until the next tick, starts the runs
// that are due, and processes orders.
func runSchedule(ctx Context, state scheduleState) (None, error) {
	r := &scheduling{ctx: ctx, state: state, changed: true}
	if !r.state.Begun {
		r.state.Begun = true
		if err := r.aim(Info(ctx).CreatedAt); err != nil {
			return None{}, err
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return None{}, err
		}
		if err := r.turn(); err != nil {
			return None{}, err
		}
		if r.changed {
			r.changed = false
			scheduleShown.Set(ctx, r.state.info(Info(ctx).ID))
		}
		if len(r.open) == 0 && (r.starts >= startsPerRun || LogLength(ctx) >= eventsPerRun || ctx.branch().Continues(r.starts >= startsWanted || r.moves())) {
			return None{}, r.goOn()
		}
		if err := r.wait(); err != nil {
			return None{}, err
		}
	}
}

// moves reports whether the schedule must move to the queue of the workflow that it starts. It does
// not move if that queue is unknown.
func (r *scheduling) moves() bool {
	to := r.state.Does.Queue
	return to != "" && to != r.ctx.branch().Spec().Queue
}

// goOn continues as new, on the queue of the workflow that the schedule starts.
func (r *scheduling) goOn() error {
	err := schedules.ContinueAsNew(r.ctx, r.state)
	if c, ok := errors.AsType[*flow.Continuation](err); ok && r.moves() {
		c.Queue = r.state.Does.Queue
	}
	return err
}

// turn processes everything that is possible without waiting. It processes orders first. An order
// starts the ticks before it, and no tick after it.
func (r *scheduling) turn() error {
	for !r.full() {
		o, e, err := scheduleOrders.tryReceive(r.ctx)
		if err != nil {
			Logger(r.ctx).Error("schedule cannot read an order", "schedule", r.state.Name, "error", err)
			continue
		}
		if e == nil {
			break
		}
		if err := r.obey(&o, e); err != nil {
			return err
		}
	}
	if err := r.ticks(Now(r.ctx)); err != nil {
		return err
	}
	return r.fill()
}

// full reports whether the run must wait for responses to its starts, or must continue as new,
// before it does anything else.
func (r *scheduling) full() bool {
	return len(r.open) >= startsOpen || r.starts >= startsPerRun || LogLength(r.ctx) >= eventsPerRun
}

// wait waits for the next order, response or due time, and processes an order or a response.
func (r *scheduling) wait() error {
	var cases []Case
	if !r.full() {
		cases = append(cases, scheduleOrders.Case())
	}
	for _, c := range r.open {
		cases = append(cases, c)
	}
	if due := r.wake(); !due.IsZero() && !r.full() {
		cases = append(cases, &TimerCase{due: due})
	}
	won, err := Select(r.ctx, cases...)
	if err != nil && r.ctx.Err() != nil {
		return err
	}
	switch won := won.(type) {
	case *startCase:
		r.answered(won)
	case *ReceiveCase[scheduleOrder]:
		if err != nil {
			Logger(r.ctx).Error("schedule cannot read an order", "schedule", r.state.Name, "error", err)
			return nil
		}
		o := won.Value()
		return r.obey(&o, won.taken)
	}
	return nil
}

// wake returns the time at which the schedule acts without an order. It is zero if there is no such
// time.
func (r *scheduling) wake() time.Time {
	switch {
	case r.fills():
		return Now(r.ctx)
	case r.state.Paused:
		return time.Time{}
	case r.state.Problem != "":
		return Now(r.ctx).Add(lookAgainAfter)
	case r.state.Next.IsZero():
		return time.Time{}
	}
	return r.state.Does.due(r.state.Name, r.state.Next)
}

// aim sets the next tick to the first tick after a time.
func (r *scheduling) aim(after time.Time) error {
	return r.find(func() tickPlan { return r.state.Does.first(after) })
}

func (r *scheduling) find(next func() tickPlan) error {
	p, err := Record(r.ctx, func() (tickPlan, error) { return next(), nil })
	r.took(&p)
	return err
}

// took applies a plan, except for its starts.
func (r *scheduling) took(p *tickPlan) {
	r.changed = true
	news := p.Problem != r.state.Problem && p.Problem != r.said // a problem is logged once, although the schedule rechecks every hour
	r.state.Next, r.state.Problem = p.Next, p.Problem
	r.state.Missed += p.Late
	r.state.Skipped += p.Passed
	switch {
	case p.Problem != "" && !news:
	case p.Problem != "":
		Logger(r.ctx).Warn("schedule has no tick on this machine: checked again in an hour", "schedule", r.state.Name, "problem", p.Problem)
	case p.Next.IsZero():
		Logger(r.ctx).Warn("schedule has no further ticks", "schedule", r.state.Name, "when", r.state.Does.When)
	}
	if p.Late > 0 {
		Logger(r.ctx).Warn("schedule has lost ticks: they are older than its catch-up", "schedule", r.state.Name, "ticks", p.Late)
	}
}

// ticks starts the runs that are due until a time.
func (r *scheduling) ticks(until time.Time) error {
	if r.state.Problem != "" && !r.state.Paused {
		if err := r.again(); err != nil {
			return err
		}
	}
	for !r.full() && r.anyDue(until) {
		next := r.state.Next
		p, err := Record(r.ctx, func() (tickPlan, error) { return r.state.Does.plan(r.state.Name, next, until), nil })
		if err != nil {
			return err
		}
		r.took(&p)
		for _, tick := range p.Start {
			r.start(r.state.Does.Overlap, tick, tickID(tick))
		}
	}
	return nil
}

// anyDue reports whether a tick is due until a time.
func (r *scheduling) anyDue(until time.Time) bool {
	return !r.state.Paused && r.state.Problem == "" && !r.state.Next.IsZero() && !r.state.Does.due(r.state.Name, r.state.Next).After(until)
}

// again searches for a tick after a problem. If the first tick without a decision is known, the
// search begins there, so that no tick is skipped.
func (r *scheduling) again() error {
	if !r.state.Next.IsZero() {
		r.said, r.state.Problem = r.state.Problem, ""
		return nil
	}
	return r.aim(Now(r.ctx))
}

// fills reports whether the schedule can start ticks of a backfill.
func (r *scheduling) fills() bool {
	return len(r.state.Backfills) > 0 && !r.full() && len(r.open) <= startsOpen/2
}

// fill starts some ticks of the first backfill.
func (r *scheduling) fill() error {
	if !r.fills() {
		return nil
	}
	b := &r.state.Backfills[0]
	p, err := Record(r.ctx, func() (tickPlan, error) { return r.state.Does.backfill(b.From, b.To), nil })
	if err != nil {
		return err
	}
	for _, tick := range p.Start {
		r.start(cmp.Or(b.Overlap, r.state.Does.Overlap), tick, tickID(tick))
	}
	r.changed = true
	if p.Problem != "" {
		Logger(r.ctx).Warn("schedule has no tick on this machine: a backfill is dropped", "schedule", r.state.Name, "problem", p.Problem)
	}
	if b.From = p.Next; p.Next.IsZero() {
		r.state.Backfills = r.state.Backfills[1:]
	}
	return nil
}

// check returns an error for an invalid order, which clients never send.
func (o *scheduleOrder) check(name string) error {
	does := o.Set
	if o.Declare != nil {
		does = o.Declare.Does
	}
	if does != nil {
		if err := errors.Join(does.CheckOptions(name), does.check(name)); err != nil {
			return err
		}
	}
	if o.Change != nil {
		if err := o.Change.CheckOptions(name); err != nil {
			return err
		}
	}
	if b := o.Backfill; b != nil {
		if !b.From.Before(b.To) {
			return &schedule.Error{Name: name, Problem: "a backfill has no ticks"}
		}
		return (schedule.Spec{Overlap: b.Overlap}).CheckOptions(name)
	}
	return nil
}

// obey applies an order. If more ticks precede the order than this run may start, obey returns the
// order to the inbox for the continuation. It does not add the order to the state, because a worker
// of another release that continues the schedule would drop unknown fields of the state.
func (r *scheduling) obey(o *scheduleOrder, asked *event.Event) error {
	if bad := o.check(r.state.Name); bad != nil {
		Logger(r.ctx).Error("schedule refuses an order", "schedule", r.state.Name, "error", bad)
		return nil
	}
	at := o.At
	if now := Now(r.ctx); at.After(now) {
		at = now
	}
	if err := r.ticks(at); err != nil {
		return err
	}
	if r.full() && r.anyDue(at) {
		r.ctx.branch().PutBack(scheduleOrders.name, asked)
		return nil
	}
	does := r.state.ordered(o)
	if o.Declare != nil {
		if r.state.Declared.after(o.Declare) {
			return nil
		}
		r.state.Declared = o.Declare
	}
	r.changed = true
	switch {
	case does != nil:
		return r.become(does, at)
	case o.Pause:
		r.state.Paused, r.state.Note = true, o.Note
	case o.Resume && r.state.Paused:
		r.state.Paused, r.state.Note = false, ""
		return r.find(func() tickPlan { return r.state.Does.dueAfter(r.state.Name, r.state.Next, at) })
	case o.Trigger != "":
		r.start(r.state.Does.Overlap, o.At, o.Trigger) // the caller derives the ID of the run from At
	case o.Backfill != nil:
		r.state.Backfills = append(r.state.Backfills, *o.Backfill)
	}
	return nil
}

// become replaces the definition of the schedule. It keeps the next tick if When is unchanged.
func (r *scheduling) become(does *scheduled, at time.Time) error {
	when := r.state.Does.When
	r.state.Does, r.changed = does, true
	if does.When == when {
		return nil
	}
	return r.aim(at)
}

// start requests the run of a tick. It does not wait. The method wait receives the response.
func (r *scheduling) start(overlap schedule.Overlap, tick time.Time, id string) {
	does, b := r.state.Does, r.ctx.branch()
	if b.Gate(r.ctx.scope()); r.ctx.Err() != nil {
		return
	}
	asked := event.Event{
		Name: does.Workflow, Key: b.Key("tick"), Payload: does.Input, Active: uint8(overlapPolicy(overlap)),
		Next: event.TickRunID(r.state.Name, id, tick), Spec: does.spec(r.state.Name, id, overlap),
	}
	asked.Spec.Pin = b.Pin(asked.Next, asked.Spec, does.Pin)
	op := b.Start(r.ctx.scope(), asked, func(recorded []byte) string {
		if bytes.Equal(recorded, asked.Payload) {
			return ""
		}
		return replay.DiffJSON(recorded, asked.Payload)
	})
	r.open = append(r.open, &startCase{op})
	r.starts++
	r.state.Started++
	r.state.Recent = append(r.state.Recent, schedule.Start{Tick: tick, Run: op.Next})
	if n := len(r.state.Recent); n > recentStarts {
		r.state.Recent = r.state.Recent[n-recentStarts:]
	}
	r.changed = true
}

// answered records the outcome of a start.
func (r *scheduling) answered(c *startCase) {
	r.open = slices.DeleteFunc(r.open, func(open *startCase) bool { return open == c })
	if c.op.Failure == nil {
		return
	}
	r.changed = true
	r.state.Started--
	r.state.Skipped++
	for i := range r.state.Recent {
		if s := &r.state.Recent[i]; s.Run == c.op.Next {
			s.Skipped = failure.Cut(c.op.Failure.Message, flow.MaxName)
		}
	}
	if failure.As(c.op.Failure, new(*store.ActiveError)) {
		return // the overlap policy has skipped the tick
	}
	Logger(r.ctx).Error("schedule could not start a run", "schedule", r.state.Name, "error", c.op.Failure.Message)
}

// startCase is a case of a Select that is ready when its run exists or was refused.
type startCase struct{ op *replay.Op }

func (c *startCase) replayCase(time.Time) (replay.Case, error) {
	return replay.Case{Promise: &c.op.Promise}, nil
}

func (c *startCase) won(Context, *event.Event) error { return nil }
