package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Run is the state of a run.
type Run struct {
	ID         string            `json:"id"`
	WorkflowID string            `json:"workflowId,omitempty"`
	Workflow   string            `json:"workflow"`
	Queue      string            `json:"queue"`
	Pin        string            `json:"pin,omitempty"` // build to which it is pinned
	Status     string            `json:"status"`
	Tags       map[string]string `json:"tags,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Root       string            `json:"root"`
	CreatedAt  time.Time         `json:"createdAt"`
	EndedAt    time.Time         `json:"endedAt,omitzero"`
	Paused     bool              `json:"paused,omitempty"`     // whether its code is suspended, whatever the status is; in lists, set only if the status is paused
	Recoveries int               `json:"recoveries,omitempty"` // number of times that it was taken over from a lost worker since its last progress
	Due        time.Time         `json:"due,omitzero"`         // time at which its next timer is due
	Events     uint64            `json:"events"`               // number of events in its log
	Waits      []string          `json:"waits,omitempty"`
	WaitsSince time.Time         `json:"waitsSince,omitzero"`
	// WaitsFor lists the limits for which the run or its steps wait. For each waiting run or step
	// it contains only the limit that blocks it at present.
	WaitsFor []LimitWait `json:"waitsFor,omitempty"`
	Group    string      `json:"group,omitempty"` // ID of its failure group; see [FailureGroup]
	// RetriedAs is the last rerun of this run after its failure or cancellation. It is empty if
	// there is none.
	RetriedAs string `json:"retriedAs,omitempty"`

	// The following fields are set by [Service.Run] only.
	//
	// Attributes are the attributes of the run, see workflow.WithAttribute. Without [RolePayloads],
	// only the keys build and principal are present.
	Attributes   map[string]string `json:"attributes,omitempty"`
	StartBy      time.Time         `json:"startBy,omitzero"`
	StartedAt    time.Time         `json:"startedAt,omitzero"`     // time at which its code began
	UpdatedAt    time.Time         `json:"updatedAt,omitzero"`     // time of its last event
	PauseReason  string            `json:"pauseReason,omitempty"`  // reason why it is paused
	Canceling    bool              `json:"canceling,omitempty"`    // whether it was requested to end, and its code is cleaning up
	CancelReason string            `json:"cancelReason,omitempty"` // reason of the first request to end
	Worker       string            `json:"worker,omitempty"`       // name of the worker that has claimed the run
	Recovery     *Recovery         `json:"recovery,omitempty"`     // last recovery; nil if there was none or the store has no record of it
	FailedStep   *FailedStep       `json:"failedStep,omitempty"`   // the step whose error made the run fail
	Below        *Below            `json:"below,omitempty"`        // nil if there are no such runs or the store cannot count them
	RerunOf      string            `json:"rerunOf,omitempty"`      // the run that this run repeats
	Chain        string            `json:"chain,omitempty"`        // the first of the runs that continue each other, up to this one
	Depth        int               `json:"depth,omitempty"`        // distance from the root
	Blocked      string            `json:"blocked,omitempty"`      // reason why it is blocked, and how to continue it
	// Mismatch is the position at which the code does not match the log of a blocked run. It is nil
	// if the run is blocked for another reason or by a worker of an older release.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Damaged is the reason why the beginning or the end of the log cannot be read, and advice on
	// how to repair it. The input or the outcome, which that part contains, is missing then.
	// Damaged is empty if both parts are readable.
	Damaged string `json:"damaged,omitempty"`
	// Newer is the reason why the log cannot be read if a newer release wrote it. Such a log is not
	// damaged.
	Newer    string   `json:"newer,omitempty"`
	Unserved bool     `json:"unserved,omitempty"` // whether no live worker serves the run
	Retries  []Retry  `json:"retries,omitempty"`
	Input    Payload  `json:"input,omitempty"`
	Result   Payload  `json:"result,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
	Next     string   `json:"next,omitempty"`    // the run as which this run continued
	Actions  []string `json:"actions,omitempty"` // actions that the run accepts at present; see [Actions]
}

// Recovery describes how a run was taken over from a lost worker.
type Recovery struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`         // expired_claim, process_ended or session_closed
	From   string    `json:"from,omitempty"` // name of the lost worker
	By     string    `json:"by,omitempty"`   // name of the worker that detected the loss
}

// FailedStep is the step whose error made a run fail.
type FailedStep struct {
	Run      string `json:"run"` // the run that called the step, which is the failed run or a descendant of it
	Step     string `json:"step"`
	Key      string `json:"key"`
	Attempts int    `json:"attempts"`
}

// Below counts the runs below a run. It counts all descendants of a root, and only the children of
// any other run.
type Below struct {
	Statuses map[string]int `json:"statuses"` // number of runs by status
	Total    int            `json:"total"`
	// Exact reports whether all runs were counted. The store counts only 1,000 runs. Otherwise the
	// numbers are lower bounds.
	Exact bool `json:"exact"`
}

// String describes the number of runs and their statuses.
func (b *Below) String() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(b.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d %s", b.Statuses[status], status))
	}
	text := strings.Join(parts, ", ")
	if !b.Exact {
		text = "at least " + text
	}
	return text
}

// String describes the reason and the time of the recovery.
func (r *Recovery) String() string {
	text := r.Reason + " at " + r.Time.Format(time.RFC3339)
	if r.From != "" {
		text += ", lost by " + r.From
	}
	return text
}

// String describes the step, its run and the number of its attempts.
func (s *FailedStep) String() string {
	return fmt.Sprintf("%s (%s) of run %s, after %d attempts", s.Step, s.Key, s.Run, s.Attempts)
}

// Mismatch is the position at which the code of a blocked run does not match its log.
type Mismatch struct {
	Event    uint64 `json:"event"`              // number of the event in the log
	Recorded string `json:"recorded"`           // the operation in the log
	Asked    string `json:"asked,omitempty"`    // the operation that the code requests; empty if it requests none
	Position string `json:"position,omitempty"` // position of the call in the code, as file:line
	Diff     string `json:"diff,omitempty"`     // set if only the contents differ; - marks recorded lines, + requested lines
	Build    string `json:"build,omitempty"`    // build of the code that recorded the event
	Here     string `json:"here,omitempty"`     // build of the code that does not match
}

// LimitWait is a limit for whose permits a run or one of its steps waits.
type LimitWait struct {
	Step    string    `json:"step,omitempty"` // stored name of the step that waits; empty if the run itself waits
	StepKey string    `json:"stepKey,omitempty"`
	Limit   string    `json:"limit"`
	Key     string    `json:"key,omitempty"`
	Paused  bool      `json:"paused"`          // whether the limit is paused, so that it admits nothing until it is resumed
	Ahead   string    `json:"ahead,omitempty"` // the run at the head of the limiter queue; empty if that is this run
	Since   time.Time `json:"since"`
}

// Place returns the name and the key of the limit, and states whether the limit is paused.
func (w *LimitWait) Place() string {
	name := w.Limit
	if w.Key != "" {
		name += "/" + w.Key
	}
	if w.Paused {
		name += " (paused)"
	}
	return name
}

// String describes the step that waits, the limit, and the run at the head of the limiter queue.
func (w *LimitWait) String() string {
	text := "waits for " + w.Place()
	if w.Step != "" {
		text = "step " + w.Step + " " + text
	}
	if w.Ahead != "" {
		text += ", behind " + w.Ahead
	}
	return text
}

// Payload is JSON in its stored form.
type Payload = json.RawMessage

// Retry is a step that is being retried.
type Retry struct {
	Step    string    `json:"step"`
	Key     string    `json:"key"`
	Attempt int       `json:"attempt"`
	Failed  string    `json:"failed"`
	Code    string    `json:"code,omitempty"`
	Next    time.Time `json:"next,omitzero"` // time of the next attempt; zero while an attempt is running
}

// Failure is an error in its stored form.
type Failure = event.Failure

// RunPage is a page of a list of runs.
type RunPage struct {
	Runs   []Run  `json:"runs"`
	Cursor string `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
	// Partial reports whether the budget was exhausted before the page was full. If so, the next
	// page continues there.
	Partial bool `json:"partial"`
	Looked  int  `json:"looked"`
}

// Counts contains the numbers of matching runs.
type Counts struct {
	Counts []Counted `json:"counts"` // the largest count first
	Total  int       `json:"total"`
	// Exact reports whether all runs were counted. If the budget was exhausted first, Exact is
	// false and the numbers are lower bounds.
	Exact bool `json:"exact"`
}

// Counted is the number of runs with a status.
type Counted struct {
	Status   string `json:"status,omitempty"` // empty for open runs whose status was not read
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	Runs     int    `json:"runs"`
}

func runOf(i *workflow.RunInfo) Run {
	r := Run{
		ID: string(i.ID), WorkflowID: i.WorkflowID, Workflow: i.Workflow, Queue: i.Queue, Pin: i.Pin, Status: string(i.Status), Tags: i.Tags,
		Paused: i.Paused, Recoveries: i.Recoveries, Worker: i.Worker, RerunOf: string(i.RerunOf), Chain: string(i.Chain), Depth: i.Depth,
		Parent: string(i.Parent), Root: string(i.Root), CreatedAt: i.CreatedAt.UTC(), EndedAt: utc(i.EndedAt), Due: utc(i.Due), Events: i.Events,
		Attributes: shownAttributes(i.Attributes), Waits: i.Waits, WaitsSince: utc(i.WaitsSince), Group: i.Group, RetriedAs: string(i.RetriedAs), StartBy: utc(i.StartBy), Blocked: i.Blocked, Unserved: i.Unserved,
	}
	if m := i.Mismatch; m != nil {
		r.Mismatch = &Mismatch{Event: m.Event, Recorded: m.Recorded, Asked: m.Asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
	}
	for _, w := range i.WaitsFor {
		r.WaitsFor = append(r.WaitsFor, LimitWait{
			Step: w.Step, StepKey: w.StepKey, Limit: w.Limit, Key: w.Key, Paused: w.Paused, Ahead: string(w.Ahead), Since: utc(w.Since),
		})
	}
	for _, s := range i.Retries {
		r.Retries = append(r.Retries, Retry{Step: s.Step, Key: s.Key, Attempt: s.Attempt, Failed: event.ShownText(s.Failed), Code: s.Code, Next: utc(s.Next)})
	}
	return r
}

// utc converts a time to UTC. It returns the zero time unchanged.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func countsOf(c workflow.Counts) Counts {
	got := Counts{Counts: []Counted{}, Total: c.Total(), Exact: c.Exact}
	for k, n := range c.Runs {
		got.Counts = append(got.Counts, Counted{Status: string(k.Status), Workflow: k.Route.Workflow, Queue: k.Route.Queue, Runs: n})
	}
	slices.SortFunc(got.Counts, func(a, b Counted) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Status, b.Status))
	})
	return got
}

// Branch is a run in a tree.
type Branch struct {
	Run
	Depth int `json:"depth"` // distance from the top of the tree
}

// Tree is a run with its descendants.
type Tree struct {
	// Runs begins with the top of the tree. Each run is followed by its children and their
	// descendants, the oldest child first. The continuation of a run is its sibling.
	Runs []Branch `json:"runs"`
	// Partial reports whether the root has more than 1,000 descendants, of which only the oldest
	// were read.
	Partial bool `json:"partial"`
}

// maxTree is the maximum number of runs that are read for a tree.
const maxTree = 1000

// Tree returns a run and up to 1,000 of its descendants. A principal with an owner gets only runs
// of that owner.
func (s *Service) Tree(ctx context.Context, ref string) (Tree, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Tree{}, err
	}
	t, err := s.tree(ctx, ref)
	if err == nil && s.who.Owner != "" {
		err = s.ownBranches(ctx, &t)
	}
	if err != nil {
		return Tree{}, err
	}
	for i := range t.Runs {
		s.hide(&t.Runs[i].Run)
	}
	return t, err
}

// tree is like [Service.Tree], but does not check the rights of the principal.
func (s *Service) tree(ctx context.Context, ref string) (Tree, error) {
	_, top, err := s.find(ctx, ref)
	if err != nil {
		return Tree{}, err
	}
	below := map[string][]Run{}
	t := Tree{}
	n := 0
	began, err := s.began(ctx, &top)
	if err != nil {
		return Tree{}, err
	}
	for f := (workflow.Filter{Root: top.Root, From: began, Oldest: true}); ; {
		page, err := s.client.Page(ctx, f, maxTree-n)
		if err != nil {
			return Tree{}, err
		}
		for i := range page.Runs {
			if parent := string(page.Runs[i].Parent); parent != "" {
				below[parent] = append(below[parent], runOf(&page.Runs[i]))
			}
		}
		n += len(page.Runs)
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
		if n >= maxTree || page.Partial {
			t.Partial = true
			break
		}
	}
	t.grow(runOf(&top), 0, below, map[string]bool{})
	return t, nil
}

// began returns a time before which no run of the tree was created. It limits the range of runs
// that the store reads.
func (s *Service) began(ctx context.Context, of *workflow.RunInfo) (time.Time, error) {
	if of.Root == of.ID {
		return of.CreatedAt, nil
	}
	root, err := s.client.Run(of.Root).Info(ctx)
	switch {
	case errors.Is(err, workflow.ErrRunNotFound): // the root was purged, but the given run below it was not
		return of.Root.Time().Add(-time.Hour), nil // the time in the root's ID comes from the clock of the process that started the root, hence the margin
	case err != nil:
		return time.Time{}, fmt.Errorf("find the root of run %s: %w", of.ID, err)
	}
	return root.CreatedAt, nil
}

// grow adds r and its descendants to the tree. It adds each run only once, because an imported run
// may be its own ancestor.
func (t *Tree) grow(r Run, depth int, below map[string][]Run, seen map[string]bool) {
	if seen[r.ID] {
		return
	}
	seen[r.ID] = true
	t.Runs = append(t.Runs, Branch{r, depth})
	children := below[r.ID]
	slices.SortFunc(children, func(a, b Run) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	for i := range children {
		t.grow(children[i], depth+1, below, seen)
	}
}
