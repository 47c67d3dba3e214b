package alerting

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Params are the parameters of an Alerting.
type Params struct {
	Config alert.Config
	Client *workflow.Client
	Store  store.Store
	Log    *slog.Logger
	Worker string // name of the worker
	// Chance returns a number in [0, 1). It spreads the scans of a fleet.
	Chance func() float64
}

// Alerting is the part of a worker that causes and delivers alerts.
type Alerting struct {
	Params
	ops *ops.Client
}

// New returns the Alerting of a worker.
func New(p Params) *Alerting { return &Alerting{Params: p, ops: ops.New(p.Client)} }

// Routes returns the routes of the runs that this worker can deliver. Each target has its own queue,
// so a run is claimed only by workers that have its target.
func (a *Alerting) Routes() (routes []store.Route) {
	for _, name := range slices.Sorted(maps.Keys(a.Config.Targets)) {
		routes = append(routes, store.Route{Queue: event.AlertQueue + name, Workflow: event.AlertRun})
	}
	return routes
}

// AtOnce is how many runs of a target a worker executes at once, so that a slow receiver takes few
// of the worker's places.
const AtOnce = 4

// param is the name of the input of the workflow.
const param = "alert"

// The workflow that delivers an alert. It cannot be started by a client, because its name is
// reserved.
var (
	runs = shim.NewWorkflow[alert.Alert, alert.Delivery](event.AlertRun, param, shim.WorkflowPolicy{
		Queue: event.AlertQueue + "none", Retention: effects.AlertRetention,
	})
	deliverStep = shim.NewStep("flowgen.alert.deliver", shim.Policy{
		Retry: workflow.RetryPolicy{
			Attempts: 1_000_001, Initial: 5 * time.Second, Max: 10 * time.Minute, Factor: 2, Jitter: 0.2, Total: 24 * time.Hour,
		},
		Timeout: 2 * time.Minute,
	}, func(f func(context.Context, alert.Alert) (alert.Delivery, error)) shim.Handler { return shim.Handle(f) })
)

// Register registers the workflow.
func (a *Alerting) Register(r workflow.Registrar) {
	deliverStep.Bind(r, a.deliver)
	shim.BindWorkflow(r, runs, func(ctx workflow.Context, of alert.Alert) (alert.Delivery, error) {
		return shim.Call[alert.Delivery](ctx, deliverStep, of)
	})
}

// deliver sends an alert to its target.
func (a *Alerting) deliver(ctx context.Context, of alert.Alert) (alert.Delivery, error) {
	target := a.Config.Targets[of.Target]
	if target == nil { // the queue of the run names the target, so another worker will claim the run
		return alert.Delivery{}, fmt.Errorf("deliver alert %s: this worker has no target %q: configure it in worker.Config.Alerts", of.ID, of.Target)
	}
	if of.Group != "" {
		if found, err := a.ops.FailureGroups(ctx, ops.FailureFilter{Groups: []string{of.Group}, Limit: 1}); err == nil && len(found.Groups) == 1 {
			of.Count = found.Groups[0].Total
		}
	}
	if err := target.Deliver(ctx, &of); err != nil {
		return alert.Delivery{}, err
	}
	return alert.Delivery{At: a.Store.Clock().Now(), Attempts: step.Attempt(ctx)}, nil
}

// Ended returns the alerts about a run that end ends as failed. state includes the end. It is called
// for each failed run, and reads nothing from the store.
func (a *Alerting) Ended(run event.RunID, state *event.LogState, end *event.Event) (alerts []effects.Alert) {
	spec := state.Spec
	var group store.FailureGroup
	for i := range a.Config.Rules {
		r := &a.Config.Rules[i]
		condition, ok := endOf(r, end.Failure)
		if !ok || !r.Filter.Matches(store.Route{Queue: spec.Queue, Workflow: spec.Workflow}, spec.Tags, spec.Parent) {
			continue
		}
		if group.Group == "" {
			group = failuregroup.Failed(spec.Workflow, end.Failure)
			if id, err := sealed.Group(context.Background(), a.Store, group.Group); err == nil { // otherwise the commit fails
				group.Group = id
			}
		}
		alerts = append(alerts, a.alert(r, condition, end.Time, group.Group, alert.Alert{
			Workflow: spec.Workflow, Queue: spec.Queue, Run: run, Step: group.Step, Code: end.Failure.Code, Message: end.Failure.Message,
			Link: a.Config.RunLink(run),
		}, spec.Tags))
	}
	return alerts
}

// endOf returns the condition of a rule that a failure fulfils.
func endOf(r *alert.Rule, f *event.Failure) (alert.Condition, bool) {
	switch {
	case f == nil:
		return "", false
	case f.Code == event.CodePoisoned && r.Has(alert.Poisoned):
		return alert.Poisoned, true
	}
	return alert.Failed, r.Has(alert.Failed)
}

// alert returns an alert about a group. of contains the details. The alert has the tags of the
// reported run, so operators who may see only runs with some tags see the alerts of these runs.
func (a *Alerting) alert(r *alert.Rule, c alert.Condition, at time.Time, group string, of alert.Alert, tags map[string]string) effects.Alert {
	of.ID, of.Rule, of.Condition, of.Target = event.AlertRunID(r.Name, group, r.WindowOf(at)), r.Name, c, r.Target
	if of.Code != "" && sealed.Private(a.Store) {
		of.Message = of.Code // messages of failures are user data, and alerts leave the store
	}
	of.Time, of.Window, of.Group, of.Message = at, r.WindowOf(at), group, cmp.Or(alert.Cut(of.Message), string(c))
	body, err := json.Marshal(map[string]alert.Alert{param: of})
	if err != nil {
		panic("alerting: encode an alert: " + err.Error()) // cannot happen: an Alert contains only texts, numbers and times
	}
	return effects.Alert{Run: of.ID, Target: r.Target, Tags: tags, Input: body}
}
