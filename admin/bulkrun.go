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

// AdminQueue is the queue of the workflows that the runtime executes for operators. Workers on
// which [Register] was called serve it.
const AdminQueue = "flowgen.admin"

// These limits bound the log of each run of a bulk action, and the work that is repeated after a
// crash.
const (
	bulkListed = 1000 // number of runs per page
	bulkPages  = 10   // number of pages after which the action continues in a new run
	bulkPart   = 250  // maximum number of runs per step
	bulkAtOnce = 16   // maximum number of concurrent actions in a step
	bulkTries  = 4    // attempts of a step after which an error is a failure of the run and not an outage of the store
)

var (
	bulkProgress = workflow.NewValue[bulkState]("progress")
	bulkStop     = workflow.NewTopic[string]("stop")
)

// bulkOrder describes a bulk action. It never changes after the start.
type bulkOrder struct {
	ID          string    `json:"id"`
	Filter      Filter    `json:"filter"` // Filter.Until is not after the time of the preview
	Action      Action    `json:"action"`
	By          Principal `json:"by"` // the principal whose rights are checked for each run
	Created     time.Time `json:"created"`
	Total       int       `json:"total"`
	Rate        int       `json:"rate"`
	MaxFailures int       `json:"maxFailures"`
}

// bulkState is the progress of a bulk action.
type bulkState struct {
	Began    time.Time     `json:"began,omitzero"`
	At       time.Time     `json:"at,omitzero"`
	Done     int           `json:"done"`
	Failed   int           `json:"failed"`
	Refused  int           `json:"refused"`
	Skipped  int           `json:"skipped"`
	Failures []BulkFailure `json:"failures,omitempty"`
	Stopped  bool          `json:"stopped,omitempty"`
	Cursor   string        `json:"cursor,omitempty"` // cursor of the next page
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

// bulkList is a page of the runs that match.
type bulkList struct {
	Runs   []string  `json:"runs"`  // IDs of the runs that accept the action
	State  bulkState `json:"state"` // counts of the runs that refuse the action
	Cursor string    `json:"cursor,omitempty"`
}

// bulk applies an action to each run that a filter selects. The list of runs is durable before the
// action is applied to the first run. After a crash, the action is applied to the same runs again,
// with the same idempotency keys.
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
			s.Skipped += max(0, o.Total-s.seen()) // adds the runs that did not match when the action listed them
			s.At = workflow.Now(ctx)
			bulkProgress.Set(ctx, s)
			return s, nil
		}
	}
	return s, BulkRuns.ContinueAsNew(ctx, bulkWork{o, s})
}

// genuine returns an error unless [Service.StartBulk] started the run. The order contains the
// rights with which the action is executed, but an order is input that any caller could write.
// Therefore the identity of the run must prove its origin. A request to start a run can use neither
// this workflow nor a workflow ID of this form. A run that was started by a schedule or by another
// run, or that was created from an earlier run, has no such workflow ID.
func (o *bulkOrder) genuine(run workflow.Identity) error {
	_, ticked := run.Tags[workflow.TagSchedule]
	owner := o.By.Owner
	switch {
	case !strings.HasPrefix(o.ID, bulkID) || run.WorkflowID != o.ID || run.Parent != "" || ticked:
		return fmt.Errorf("bulk action %q: run %s was not started as one: its order is ignored", o.ID, run.ID)
	case owner != "" && (run.Tags[ownerTag] != owner || o.Filter.Tags[ownerTag] != owner):
		return fmt.Errorf("bulk action %q: its filter selects runs of other owners than %s", o.ID, owner)
	}
	return nil
}

// bulkTurn applies the action to a part of a page, then sleeps as long as the rate requires.
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

// listBulk lists the runs that match at present, the oldest first.
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

// notNow returns a text that explains why a run refuses an action.
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

// actOnBulk applies the action to the runs of a page that match at present. Runs on which an
// interrupted attempt has acted count as done. For the other runs the request is repeated with the
// same key. An error means that the store is unavailable.
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
	if err := s.storeAnswers(ctx); err != nil { // otherwise the end of an outage between a failure and failedItem would make it a failure of the run
		return bulkState{}, err
	}
	infos, errs := s.client.Infos(ctx, ids...)
	outcomes := make([]bulkState, len(runs))
	var left []int // indexes of the runs to act on
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

// settled returns the result for a run that needs no action, or false if the action must be applied
// to the run. gone reports that the run does not exist. again reports that an earlier attempt of
// the step may have applied the action to the run.
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

// actOnAll applies the action to the runs with the given indexes, and returns their errors in the
// same order.
func (s *Service) actOnAll(ctx context.Context, v *verb, o *bulkOrder, runs []workflow.RunID, some []int) []error {
	if v.many != nil {
		var ids []workflow.RunID
		for _, i := range some {
			ids = append(ids, runs[i])
		}
		return v.many(ctx, s.ops, o.Action, ids)
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
			_, errs[k] = v.do(ctx, s.ops, s.client.Run(runs[i]), a)
		})
	}
	all.Wait()
	return errs
}

// failedItem returns the result for a run whose action returned err. If down is not nil, the store
// may be unavailable, and the step must be repeated.
func (s *Service) failedItem(ctx context.Context, o *bulkOrder, run string, err error) (got bulkState, down error) {
	p := ProblemOf(err)
	if p.Code == CodeRefused || p.Code == CodeNotFound { // for example, the run does not contain the step to fork from
		infos, errs := s.client.Infos(ctx, workflow.RunID(run))
		if errors.Is(errs[0], workflow.ErrRunNotFound) || errs[0] == nil && !matches(o.Filter, &infos[0]) { // the run was deleted or changed after it was listed
			return bulkState{Skipped: 1}, nil
		}
		got.refuse(run, p.Detail)
		return got, nil
	}
	if step.Attempt(ctx) < bulkTries { // if the store has an outage, it may end before the next attempt
		return got, err
	}
	if s.storeAnswers(ctx) != nil {
		return got, err
	}
	return bulkState{Failed: 1, Failures: []BulkFailure{{Run: run, Outcome: bulkFailed, Detail: p.Detail}}}, ctx.Err()
}

// storeAnswers returns an error if the store does not answer. Reading a run shows whether the store or
// only another run fails. In the first attempts nothing counts as a failure, and it reads nothing.
func (s *Service) storeAnswers(ctx context.Context) error {
	call, ok := step.Current(ctx)
	if !ok || call.Attempt < bulkTries {
		return nil
	}
	_, err := s.client.Run(call.RunID).Info(ctx)
	return err
}

// bulkPage calls visit for each matching run of a page, the oldest first, and returns the cursor of
// the next page.
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

// matches reports whether a filter selects a run. It applies the rules of the stores.
func matches(f Filter, i *workflow.RunInfo) bool {
	q := store.Query{
		Workflow: f.Workflow, Queue: f.Queue, WorkflowID: f.WorkflowID, Tags: f.Tags, Parent: workflow.RunID(f.Parent), Root: workflow.RunID(f.Root),
		Roots: !f.Children && f.Parent == "" && f.Root == "", From: f.Since, To: f.Until, Group: f.Group, Failing: f.Failing,
	}
	for _, s := range f.Statuses {
		q.Statuses = append(q.Statuses, workflow.Status(s))
	}
	return q.Matches(&store.Record{
		Run: i.ID, WorkflowID: i.WorkflowID, Route: store.Route{Workflow: i.Workflow, Queue: i.Queue}, Tags: i.Tags, Parent: i.Parent, Root: i.Root,
		CreatedAt: i.CreatedAt, Status: i.Status, Group: i.Group,
	})
}
