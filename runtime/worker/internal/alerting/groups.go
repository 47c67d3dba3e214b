package alerting

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// groups reports blocked runs, runs with a step that is retried for long, and failed runs that were
// ended by a worker without these rules. It reads the failure groups of the store. It reads runs
// only if a group has no alert in this window.
func (s *scan) groups(ctx context.Context, _ *turn) error {
	kinds := map[store.FailureKind][]*alert.Rule{
		store.FailureKindFailed:   s.with(alert.Failed, alert.Poisoned),
		store.FailureKindBlocked:  s.with(alert.Blocked),
		store.FailureKindRetrying: s.with(alert.Retrying),
	}
	for kind, rules := range kinds {
		if len(rules) == 0 {
			continue
		}
		f := ops.FailureFilter{Kinds: []store.FailureKind{kind}, Open: true, Limit: scanGroups}
		if kind == store.FailureKindFailed {
			f.Since = s.since
		}
		page, err := s.ops.FailureGroups(ctx, f)
		if errors.Is(err, workflow.ErrNotSupported) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range page.Groups {
			for _, r := range rules {
				if err := s.group(ctx, r, &page.Groups[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// edge is the maximum difference between the time of the event that ends a run and the time at which
// the store adds the run to its failure group.
const edge = 10 * time.Second

// group reports a group by a rule, unless it was reported in this window.
func (s *scan) group(ctx context.Context, r *alert.Rule, g *ops.FailureGroup) error {
	at := []time.Time{s.now}
	switch {
	case g.Kind == store.FailureKindFailed:
		at = []time.Time{g.Last, g.Last.Add(-edge)}
	case g.Kind == store.FailureKindRetrying && s.now.Sub(g.First) < r.Patience():
		return nil
	}
	for _, t := range at {
		if known, err := s.known(ctx, r, g.Group, t); known || err != nil {
			return err
		}
	}
	lister, ok := store.As[store.Lister](s.Store)
	if !ok {
		return nil
	}
	// The oldest runs have been retried for longest, but the newest have failed last.
	page, err := lister.List(ctx, store.Query{Group: g.Group, Oldest: g.Kind == store.FailureKindRetrying, Limit: scanRuns})
	if err != nil {
		return err
	}
	for i := range page.Runs {
		run := &page.Runs[i]
		if !r.Filter.Matches(run.Route, run.Tags, run.Parent) {
			continue
		}
		if done, err := s.run(ctx, r, g, run); done || err != nil {
			return err
		}
	}
	return nil
}

// run reports a group by one of its runs. done reports whether the run fulfils a condition.
func (s *scan) run(ctx context.Context, r *alert.Rule, g *ops.FailureGroup, run *store.Record) (done bool, err error) {
	queue, _ := event.SplitQueue(run.Route.Queue)
	of := alert.Alert{Workflow: run.Route.Workflow, Queue: queue, Run: run.Run, Step: g.Step, Message: g.Text}
	c, at := alert.Blocked, s.now
	switch g.Kind {
	case store.FailureKindFailed:
		if event.Internal(run.Route.Workflow) || run.EndedAt.Before(s.since) {
			return false, nil
		}
		end, err := s.lastEvent(ctx, run)
		if err != nil || end == nil || end.Type != event.RunFailed || !end.Due.IsZero() {
			return false, err
		}
		if c, done = endOf(r, end.Failure); !done {
			return false, nil
		}
		at, of.Code, of.Message = end.Time, end.Failure.Code, end.Failure.Message
	case store.FailureKindRetrying:
		o, since, err := s.failing(ctx, run)
		if err != nil || o == nil || s.now.Sub(since) < r.Patience() {
			return false, err
		}
		c, of.Step, of.Code = alert.Retrying, o.Name, o.Failure.Code
		of.Message = "retried since " + since.UTC().Format(time.RFC3339) + ": " + o.Failure.Message
	}
	if event.IsStepRun(of.Workflow) && run.Parent != "" {
		of.Run = run.Parent // people know the run whose step it executes
	}
	of.Link = s.Config.RunLink(of.Run)
	return true, s.create(ctx, s.alert(r, c, at, g.Group, of, run.Tags))
}

// lastEvent returns the last event of a run, or nil if it cannot be read.
func (s *scan) lastEvent(ctx context.Context, run *store.Record) (*event.Event, error) {
	got, err := s.Store.Load(ctx, []store.Load{{Run: run.Run, After: run.N - 1, Limit: 1}})
	if err != nil || got[0].Err != nil || len(got[0].Frames) == 0 {
		return nil, err // the run was removed or is damaged, which flowctl fsck reports
	}
	f, err := event.DecodeFrame(got[0].Frames[0])
	if err != nil || len(f.Events) == 0 {
		return nil, nil //nolint:nilerr // as above
	}
	return &f.Events[len(f.Events)-1], nil
}

// failing returns the step of a run that is being retried, and the time of its first failure, or nil
// if there is none. In a rerun the step may have been created long before, but attempts of the run
// before do not count. The steps of a paused run are not retried. A log that is too long is not read.
func (s *scan) failing(ctx context.Context, run *store.Record) (*event.Open, time.Time, error) {
	if run.N > scanFrames || run.Status == event.StatusPaused {
		return nil, time.Time{}, nil
	}
	got, err := s.Store.Load(ctx, []store.Load{{Run: run.Run}})
	if err != nil || got[0].Err != nil {
		return nil, time.Time{}, err
	}
	var state event.LogState
	failed := map[uint64]time.Time{}
	for _, b := range got[0].Frames {
		f, err := event.DecodeFrame(b)
		for i := 0; err == nil && i < len(f.Events); i++ {
			e := &f.Events[i]
			if err = state.Apply(e); e.Type != event.StepRetrying {
				continue
			}
			if e.Failure == nil {
				delete(failed, e.Ref) // a rerun begins the step again
			} else if failed[e.Ref].IsZero() {
				failed[e.Ref] = e.Time
			}
		}
		if err != nil {
			return nil, time.Time{}, nil //nolint:nilerr // flowctl fsck reports the damage
		}
	}
	o := state.Failing()
	if o == nil {
		return nil, time.Time{}, nil
	}
	return o, failed[o.Ref], nil
}
