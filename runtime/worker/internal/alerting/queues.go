package alerting

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
)

// waiting is a ready run. The store does not record when a message, an answer or a release has woken
// a run, so Since is the time of the first scan that has found the run with N frames.
type waiting struct {
	Run   event.RunID `json:"run"`
	N     uint64      `json:"n"`
	Since time.Time   `json:"since"`
}

// queues reports runs that wait for a worker.
func (s *scan) queues(ctx context.Context, t *turn) error {
	rules := s.with(alert.Unserved, alert.Stuck)
	if len(rules) == 0 {
		return nil
	}
	fleet, err := s.ops.Fleet(ctx)
	if err != nil {
		return err
	}
	var queues []*ops.QueueInfo
	var loads []store.Load
	for i := range fleet.Queues {
		if q := &fleet.Queues[i]; q.OldestRun != "" {
			queues, loads = append(queues, q), append(loads, store.Load{Run: q.OldestRun, Limit: 1, Inbox: true})
		}
	}
	loaded, err := s.Store.Load(ctx, loads)
	if err != nil {
		return err
	}
	before := t.Waits
	t.Waits = map[string]waiting{}
	for i, q := range queues {
		if l := &loaded[i]; l.Err != nil || l.Record.QueueState != store.StateReady {
			continue // it was claimed, removed, or is damaged, which flowctl fsck reports
		}
		since, err := s.waitsSince(ctx, q, &loaded[i], before, t.Waits)
		if err != nil {
			return err
		}
		for _, r := range rules {
			if err := s.queue(ctx, r, q, since); err != nil {
				return err
			}
		}
	}
	return nil
}

// queue reports the oldest ready run of a queue by a rule, if it has waited for long enough.
func (s *scan) queue(ctx context.Context, r *alert.Rule, q *ops.QueueInfo, since time.Time) error {
	at := since.UTC().Format(time.RFC3339)
	c, what := alert.Stuck, fmt.Sprintf("a run has waited since %s for one of the %d workers that serve it", at, q.Workers)
	if q.Workers == 0 {
		c, what = alert.Unserved, fmt.Sprintf("a run has waited since %s, and no worker serves queue %s and workflow %s", at, q.Queue, q.Workflow)
	}
	if !r.Has(c) || s.now.Sub(since) < r.Patience() || !r.Filter.Serves(store.Route{Queue: q.Queue, Workflow: q.Workflow}) {
		return nil
	}
	return s.create(ctx, s.alert(r, c, s.now, string(c)+":"+q.Queue+"/"+q.Workflow, alert.Alert{
		Workflow: q.Workflow, Queue: q.Queue, Run: q.OldestRun, Message: what, Link: s.Config.RunLink(q.OldestRun),
	}, nil))
}

// waitsSince returns the time since which the oldest ready run of a queue has certainly waited. If
// the time depends on earlier scans, it adds the run to seen.
func (s *scan) waitsSince(ctx context.Context, q *ops.QueueInfo, l *store.Loaded, before, seen map[string]waiting) (time.Time, error) {
	if l.Record.N == 1 && len(l.Inbox) == 0 && len(l.Frames) == 1 {
		if f, err := event.DecodeFrame(l.Frames[0]); err == nil && len(f.Events) > 0 && f.Events[0].Spec != nil && f.Events[0].Spec.Hold == 0 {
			return s.preceded(ctx, &l.Record, q.Oldest)
		}
	}
	route := q.Queue + "/" + q.Workflow
	w := waiting{Run: q.OldestRun, N: l.Record.N, Since: s.now}
	if old := before[route]; old.Run == w.Run && old.N == w.N {
		w.Since = old.Since
	}
	seen[route] = w
	return w.Since, nil
}

// preceded returns the time since which a run that nothing has woken has waited. A start may have
// waited for the end of the preceding run of its workflow ID.
func (s *scan) preceded(ctx context.Context, run *store.Record, since time.Time) (time.Time, error) {
	lister, ok := store.As[store.Lister](s.Store)
	if run.WorkflowID == "" || !ok {
		return since, nil
	}
	page, err := lister.List(ctx, store.Query{WorkflowID: run.WorkflowID, Limit: scanRuns})
	for i := range page.Runs {
		if end := page.Runs[i].EndedAt; end.After(since) {
			since = end
		}
	}
	return since, err
}
