package machines_test

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// trip is a machine in the form that users and the generator write. It takes legs until it has gone
// far enough. It can wait for its next leg, be reminded, and break down.
type trip struct {
	Km    int            `json:"km"`
	Legs  []string       `json:"legs,omitempty"`
	Seen  map[string]int `json:"seen,omitempty"`
	depot *depot
}

// depot contains the dependencies of the steps of a trip.
type depot struct {
	around func(t *trip)                                        // called in each leg; if set, seen is not used
	try    func(ctx context.Context, t *trip, leg string) error // called before the leg is taken
	seen   flowtest.Seen[string]                                // the state of the machine at the beginning of each attempt, as JSON
}

type tripNext = step.Next[trip, []string]

type legArgs struct {
	Leg string `json:"leg"`
	Km  int    `json:"km"`
}

type nudgeArgs struct {
	Times int `json:"times"`
}

type towArgs struct {
	Why step.Failure `json:"why"`
}

var (
	trips = shim.NewWorkflow[string, []string]("test.machines.trip", "in", shim.WorkflowPolicy{})
	legs  = workflow.NewTopic[int]("machines.legs") // messages that contain kilometers
	stops = workflow.NewTopic[int]("machines.stops")

	begin = aStep[legArgs]("begin", shim.Policy{})
	leg   = aStep[legArgs]("leg", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 5, Initial: time.Millisecond, Max: time.Millisecond}})
	nudge = aStep[nudgeArgs]("nudge", shim.Policy{})
	tow   = aStep[towArgs]("tow", shim.Policy{})
)

// machineStep is a step in the form that the generator declares, with a struct of arguments.
type machineStep[A any] struct {
	shim.Step[func(context.Context, *trip, A) (tripNext, error)]
}

func aStep[A any](name string, p shim.Policy) machineStep[A] {
	return machineStep[A]{shim.NewStep("test.machines."+name, p, func(f func(context.Context, *trip, A) (tripNext, error)) shim.Handler { return shim.HandleMachine(f) })}
}

func (s machineStep[A]) bind(r workflow.Registrar, d *depot, code func(context.Context, *trip, A) (tripNext, error)) {
	s.Bind(r, func(ctx context.Context, t *trip, a A) (tripNext, error) {
		if text, err := json.Marshal(t); err == nil && d.around == nil {
			d.seen.Add(string(text))
		}
		t.depot = d
		return code(ctx, t, a)
	})
}

func (*trip) goLeg(name string, km int) tripNext {
	return shim.Goto[trip, []string](leg.Step, legArgs{name, km})
}

func (*trip) awaitLeg(name string, from workflow.Topic[int]) tripNext {
	return shim.Await[trip, []string](leg.Step, legArgs{Leg: name}, "km", from)
}

func (*trip) goNudge(times int) tripNext {
	return shim.Goto[trip, []string](nudge.Step, nudgeArgs{times})
}

func (*trip) awaitNudge(from workflow.Topic[int]) tripNext {
	return shim.Await[trip, []string](nudge.Step, nudgeArgs{}, "times", from)
}

func (*trip) goTow(why step.Failure) tripNext {
	return shim.Goto[trip, []string](tow.Step, towArgs{why})
}

func (*trip) done(legs []string) tripNext { return shim.Done[trip, []string](legs) }

func (t *trip) begin(_ context.Context, plan string) (tripNext, error) {
	t.Seen = map[string]int{"begin": 1}
	switch plan {
	case "loop":
		return t.goLeg("loop", 0), nil
	case "wait":
		return t.awaitLeg("asked", legs).Or(t.awaitNudge(stops)).OrAfter(time.Hour, t.goNudge(1)), nil
	case "sleep":
		return t.goLeg("slept", 100).After(24 * time.Hour), nil
	case "short": // the nudge is due at once, even in real time
		return t.awaitLeg("asked", legs).OrAfter(0, t.goLeg("short", 20).After(time.Millisecond)), nil
	}
	return t.goLeg(plan, 0), nil
}

func (t *trip) leg(ctx context.Context, name string, km int) (tripNext, error) {
	t.Legs = append(t.Legs, name)
	t.Km += km
	t.Seen[name]++
	if t.depot.try != nil {
		if err := t.depot.try(ctx, t, name); err != nil {
			return tripNext{}, err
		}
	}
	if t.depot.around != nil {
		t.depot.around(t)
	}
	switch {
	case name == "nowhere":
		return tripNext{}, nil
	case name == "twice":
		return t.goLeg("a", 0).OrAfter(time.Hour, t.goLeg("b", 0)), nil
	case name == "loop" && t.Km < 0:
		return t.done(t.Legs), nil
	case name == "loop":
		return t.goLeg("loop", 1), nil
	case name == "short" && t.Km < 60:
		return t.awaitLeg("asked", legs).OrAfter(time.Millisecond, t.goLeg("short", 20)), nil
	case name == "short":
		return t.done(t.Legs), nil
	case t.Km >= 100:
		return t.done(t.Legs), nil
	}
	return t.awaitLeg("asked", legs).OrAfter(time.Hour, t.goNudge(1)), nil
}

func (t *trip) nudge(_ context.Context, times int) (tripNext, error) {
	t.Seen["nudge"]++
	if times > 2 {
		return t.done(append(t.Legs, "gave up")), nil
	}
	return t.awaitLeg("nudged", legs).OrAfter(time.Hour, t.goNudge(times+1)), nil
}

func (t *trip) tow(_ context.Context, why step.Failure) (tripNext, error) {
	text := "towed: " + why.Code
	if errors.Is(why, errFlat) {
		text = "towed: flat"
	}
	return t.done(append(t.Legs, text)), nil
}

var errFlat = errors.New("flat")

func init() { shim.RegisterSentinel("test.machines.errFlat", errFlat) }

// machineOf binds a trip that may begin at most limit steps. It omits the steps in without.
func machineOf(d *depot, limit int, without ...string) flowtest.Binding {
	return func(r workflow.Registrar) {
		begin.bind(r, d, func(ctx context.Context, t *trip, a legArgs) (tripNext, error) { return t.begin(ctx, a.Leg) })
		leg.bind(r, d, func(ctx context.Context, t *trip, a legArgs) (tripNext, error) { return t.leg(ctx, a.Leg, a.Km) })
		nudge.bind(r, d, func(ctx context.Context, t *trip, a nudgeArgs) (tripNext, error) { return t.nudge(ctx, a.Times) })
		tow.bind(r, d, func(ctx context.Context, t *trip, a towArgs) (tripNext, error) { return t.tow(ctx, a.Why) })
		catch := (*trip)(nil).goTow
		all := []shim.MachineStep[trip, []string]{
			shim.NewMachineStep[legArgs, trip, []string](begin.Step, nil, nil),
			shim.NewMachineStep[legArgs, trip, []string](leg.Step, nil, catch),
			shim.NewMachineStep[nudgeArgs, trip, []string](nudge.Step, func(a nudgeArgs) string { return shim.Key(a.Times) }, nil),
			shim.NewMachineStep[towArgs, trip, []string](tow.Step, nil, nil),
		}
		var kept []shim.MachineStep[trip, []string]
		for i, name := range []string{"begin", "leg", "nudge", "tow"} {
			if len(without) == 0 || without[0] != name {
				kept = append(kept, all[i])
			}
		}
		start := func(plan string) tripNext { return shim.Goto[trip, []string](begin.Step, legArgs{Leg: plan}) }
		shim.BindMachine(r, trips, limit, start, kept...)
	}
}

// stepsOf returns the names of the steps in a log, in order.
func stepsOf(log []event.Event) (names []string) {
	for _, e := range flowtest.Filter(log, event.StepCreated) {
		names = append(names, e.Name[len("test.machines."):])
	}
	return names
}
