package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

// AdminQueue is the queue of the runtime's own workflows for operators. Workers on which [Register] was called serve it.
const AdminQueue = "flowgen.admin"

// What bounds a bulk action: the log of each run of it, and what is repeated after a crash.
const (
	bulkListed = 1000 // runs of a page
	bulkPages  = 10   // pages before it continues as a new run
	bulkPart   = 250  // runs of a step at most
	bulkAtOnce = 16   // runs of a step at a time
	bulkTries  = 4    // attempts of a step before a run, and not the store, is taken for broken
)

var (
	bulkProgress = workflow.NewValue[bulkState]("progress")
	bulkStop     = workflow.NewTopic[string]("stop")
)

// bulkOrder says what a bulk action does. It never changes.
type bulkOrder struct {
	ID          string    `json:"id"`
	Filter      Filter    `json:"filter"` // Until is the time of the preview, or before it
	Action      Action    `json:"action"`
	By          Principal `json:"by"` // with whose rights each run is acted on
	Created     time.Time `json:"created"`
	Total       int       `json:"total"`
	Rate        int       `json:"rate"`
	MaxFailures int       `json:"maxFailures"`
}

// bulkState is how far a bulk action is.
type bulkState struct {
	Began    time.Time     `json:"began,omitzero"`
	At       time.Time     `json:"at,omitzero"`
	Done     int           `json:"done"`
	Failed   int           `json:"failed"`
	Refused  int           `json:"refused"`
	Skipped  int           `json:"skipped"`
	Failures []BulkFailure `json:"failures,omitempty"`
	Stopped  bool          `json:"stopped,omitempty"`
	Cursor   string        `json:"cursor,omitempty"` // of the next page
}

func (s *bulkState) seen() int { return s.Done + s.Failed + s.Refused + s.Skipped }

func (s *bulkState) add(o bulkState) {
	s.Done, s.Failed, s.Refused, s.Skipped = s.Done+o.Done, s.Failed+o.Failed, s.Refused+o.Refused, s.Skipped+o.Skipped
	s.Failures = append(s.Failures, o.Failures[:min(len(o.Failures), maxBulkFailures-len(s.Failures))]...)
}

// bulkWork is the input of a run of a bulk action.
type bulkWork struct {
	Order bulkOrder `json:"order"`
	State bulkState `json:"state"`
}

// bulkList is a page of runs that match.
type bulkList struct {
	Runs   []string  `json:"runs"`  // that take the action
	State  bulkState `json:"state"` // of those that do not
	Cursor string    `json:"cursor,omitempty"`
}

// bulk acts on each run of a filter. Which runs there are is durable before any of them is acted on, so that what is
// repeated after a crash is the same; and it is repeated with the same idempotency keys.
//
//flow:workflow name=flowgen.bulk as=BulkRuns queue=flowgen.admin retention=720h
func bulk(ctx workflow.Context, w bulkWork) (bulkState, error) {
	o, s := w.Order, w.State
	if err := o.genuine(workflow.Info(ctx)); err != nil {
		return s, err
	}
	if s.Began.IsZero() {
		s.Began = workflow.Now(ctx)
	}
	for range bulkPages {
		page, err := ListBulk(ctx, o, s.Cursor)
		if err != nil {
			return s, err
		}
		s.add(page.State)
		for part := range slices.Chunk(page.Runs, min(o.Rate, bulkPart)) {
			if err := bulkTurn(ctx, o, &s, part); err != nil || s.Stopped {
				return s, err
			}
		}
		if s.Cursor = page.Cursor; s.Cursor == "" {
			s.Skipped += max(0, o.Total-s.seen()) // they no longer matched when they were listed
			s.At = workflow.Now(ctx)
			bulkProgress.Set(ctx, s)
			return s, nil
		}
	}
	return s, BulkRuns.ContinueAsNew(ctx, bulkWork{o, s})
}

// genuine returns an error unless a run is that of a bulk action as [Service.StartBulk] starts it. Its order says with whose rights it acts,
// and an order is input: what vouches for it is the run itself. A workflow id of this form, and this workflow, are given to nobody who
// asks for a start; a run that a schedule or another run has started, or that was made of an earlier one, has no such id of its own.
func (o *bulkOrder) genuine(run workflow.Identity) error {
	_, ticked := run.Tags[workflow.TagSchedule]
	owner := o.By.Owner
	switch {
	case !strings.HasPrefix(o.ID, bulkID) || run.WorkflowID != o.ID || run.Parent != "" || ticked:
		return fmt.Errorf("bulk action %q: run %s was not started as one: its order counts for nothing", o.ID, run.ID)
	case owner != "" && (run.Tags[ownerTag] != owner || o.Filter.Tags[ownerTag] != owner):
		return fmt.Errorf("bulk action %q: its filter selects runs of other owners than %s", o.ID, owner)
	}
	return nil
}

// bulkTurn acts on a part of a page, and lets so much time pass that the rate holds.
func bulkTurn(ctx workflow.Context, o bulkOrder, s *bulkState, part []string) error {
	begun := workflow.Now(ctx)
	got, err := ActOnBulk(ctx, o, part)
	if err != nil {
		return err
	}
	s.add(got)
	s.At = workflow.Now(ctx)
	_, s.Stopped, err = bulkStop.TryReceive(ctx)
	if err != nil {
		return err
	}
	bulkProgress.Set(ctx, *s)
	if s.Failed >= o.MaxFailures {
		return fmt.Errorf("%s has failed for %d runs, and no more than %d were allowed: %d remain", o.Action.Verb, s.Failed, o.MaxFailures, max(0, o.Total-s.seen()))
	}
	rest := time.Duration(len(part))*time.Second/time.Duration(o.Rate) - s.At.Sub(begun)
	if rest <= 0 || s.Stopped {
		return nil
	}
	stop := bulkStop.Case()
	first, err := workflow.Select(ctx, stop, workflow.After(rest))
	if err == nil && first == workflow.Case(stop) {
		s.Stopped = true
		bulkProgress.Set(ctx, *s)
	}
	return err
}

// listBulk lists the runs that match now, the oldest first.
//
//flow:step name=flowgen.bulk.list as=ListBulk retries=1000000 backoff=exponential(100ms,1m)
func (s *Service) listBulk(ctx context.Context, o bulkOrder, cursor string) (bulkList, error) {
	v, err := verbOf(o.Action.Verb)
	if err != nil {
		return bulkList{}, step.Fatal(err)
	}
	got := bulkList{Runs: []string{}}
	got.Cursor, err = s.bulkPage(ctx, o.Filter, cursor, func(i *workflow.RunInfo) {
		if s.takes(ctx, v, i) {
			got.Runs = append(got.Runs, string(i.ID))
			return
		}
		got.State.refuse(string(i.ID), notNow(v.name, i))
	})
	return got, err
}

// notNow says why a run does not take an action.
func notNow(verb string, i *workflow.RunInfo) string {
	if i.RetriedAs != "" && remakes(verb) {
		return "it was retried as " + string(i.RetriedAs)
	}
	if event.Internal(i.Workflow) && verb != verbDelete {
		return "a run of the runtime's own does not take " + verb
	}
	return "a run that is " + string(i.Status) + " does not take " + verb
}

func (s *bulkState) refuse(run, why string) {
	s.Refused++
	s.add(bulkState{Failures: []BulkFailure{{Run: run, Outcome: bulkRefused, Detail: why}}})
}

// actOnBulk acts on those of a page that still match. What was done by an attempt that was interrupted counts as done;
// what is not there yet is asked for again with the same key. An error says that the store is away.
//
//flow:step name=flowgen.bulk.act as=ActOnBulk retries=1000000 backoff=exponential(100ms,1m) timeout=30m
func (s *Service) actOnBulk(ctx context.Context, o bulkOrder, runs []string) (bulkState, error) {
	v, err := verbOf(o.Action.Verb)
	if err == nil {
		err = o.By.Need(roleFor(v.name), "to "+v.name+" runs")
	}
	if err != nil {
		return bulkState{}, step.Fatal(err)
	}
	ids := make([]workflow.RunID, len(runs))
	for i, run := range runs {
		ids[i] = workflow.RunID(run)
	}
	ctx = workflow.OnBehalfOf(ctx, o.By.Name)
	infos, errs := s.client.Infos(ctx, ids...)
	outcomes := make([]bulkState, len(runs))
	var left []int // of runs, those to act on
	for i := range infos {
		if errs[i] != nil && !errors.Is(errs[i], workflow.ErrRunNotFound) {
			continue
		}
		var settled bool
		if outcomes[i], settled = s.settled(ctx, v, &o, runs[i], &infos[i], errs[i] != nil, step.Attempt(ctx) > 1); !settled {
			left = append(left, i)
		}
		errs[i] = nil
	}
	for k, err := range s.actOnAll(ctx, v, &o, ids, left) {
		errs[left[k]] = err
		if err == nil {
			outcomes[left[k]] = bulkState{Done: 1}
		}
	}
	var sum bulkState
	var down error
	for i := range runs {
		if errs[i] != nil {
			outcomes[i], err = s.failedItem(ctx, &o, runs[i], errs[i])
			down = errors.Join(down, err)
		}
		sum.add(outcomes[i])
	}
	return sum, down
}

// settled returns what came of a run on which nothing is done any more; false: it is acted on. gone: there is no such run.
// again: the step was interrupted, and the run may have been acted on.
func (s *Service) settled(ctx context.Context, v *verb, o *bulkOrder, run string, info *workflow.RunInfo, gone, again bool) (got bulkState, yes bool) {
	switch {
	case gone && again && v.name == verbDelete, !gone && again && v.done(info):
		got.Done++
	case gone, !matches(o.Filter, info):
		got.Skipped++
	case !s.takes(ctx, v, info):
		got.refuse(run, notNow(v.name, info))
	default:
		return got, false
	}
	return got, true
}

// actOnAll acts on some of the runs, and returns the errors in their order.
func (s *Service) actOnAll(ctx context.Context, v *verb, o *bulkOrder, runs []workflow.RunID, some []int) []error {
	if v.many != nil {
		var ids []workflow.RunID
		for _, i := range some {
			ids = append(ids, runs[i])
		}
		return v.many(ctx, s.client, o.Action, ids)
	}
	errs := make([]error, len(some))
	var all sync.WaitGroup
	places := make(chan struct{}, bulkAtOnce)
	for k, i := range some {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			a := o.Action
			a.Key = o.ID + "/" + string(runs[i])
			_, errs[k] = v.do(ctx, s.client.Run(runs[i]), a)
		})
	}
	all.Wait()
	return errs
}

// failedItem returns what an error says of a run. The second result says that the store is away.
func (s *Service) failedItem(ctx context.Context, o *bulkOrder, run string, err error) (got bulkState, down error) {
	p := ProblemOf(err)
	if p.Code == CodeRefused || p.Code == CodeNotFound { // such as a step to fork from, that it does not have
		infos, errs := s.client.Infos(ctx, workflow.RunID(run))
		if errors.Is(errs[0], workflow.ErrRunNotFound) || errs[0] == nil && !matches(o.Filter, &infos[0]) { // since it was looked at
			return bulkState{Skipped: 1}, nil
		}
		got.refuse(run, p.Detail)
		return got, nil
	}
	if step.Attempt(ctx) < bulkTries { // an outage may be over before the question below
		return got, err
	}
	if call, ok := step.Current(ctx); ok { // is it the run, or the store?
		if _, down := s.client.Run(call.RunID).Info(ctx); down != nil {
			return got, err
		}
	}
	return bulkState{Failed: 1, Failures: []BulkFailure{{Run: run, Outcome: bulkFailed, Detail: p.Detail}}}, ctx.Err()
}

// bulkPage visits a page of the runs that match, the oldest first, and returns the cursor of the next one.
func (s *Service) bulkPage(ctx context.Context, f Filter, cursor string, visit func(i *workflow.RunInfo)) (string, error) {
	f.Oldest, f.Cursor = true, cursor
	asked, err := f.filter()
	if err != nil {
		return "", err
	}
	page, err := s.client.Page(ctx, asked, bulkListed)
	if err != nil {
		return "", err
	}
	for i := range page.Runs {
		visit(&page.Runs[i])
	}
	return page.Cursor, nil
}

// matches reports whether a filter selects a run, as a store does.
func matches(f Filter, i *workflow.RunInfo) bool {
	q := store.Query{
		Workflow: f.Workflow, Queue: f.Queue, WorkflowID: f.WorkflowID, Tags: f.Tags, Parent: workflow.RunID(f.Parent), Root: workflow.RunID(f.Root),
		Roots: !f.Children && f.Parent == "" && f.Root == "", From: f.Since, To: f.Until, Group: f.Group, Troubled: f.Troubled,
	}
	for _, s := range f.Statuses {
		q.Statuses = append(q.Statuses, workflow.Status(s))
	}
	return q.Matches(&store.Record{
		Run: i.ID, WorkflowID: i.WorkflowID, Route: store.Route{Workflow: i.Workflow, Queue: i.Queue}, Tags: i.Tags, Parent: i.Parent, Root: i.Root,
		CreatedAt: i.CreatedAt, Status: i.Status, Group: i.Group,
	})
}
