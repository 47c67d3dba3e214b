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
	Status     string            `json:"status"`
	Tags       map[string]string `json:"tags,omitempty"`
	Parent     string            `json:"parent,omitempty"`
	Root       string            `json:"root"`
	CreatedAt  time.Time         `json:"createdAt"`
	EndedAt    time.Time         `json:"endedAt,omitzero"`
	Paused     bool              `json:"paused,omitempty"`     // its code is suspended, whatever its status; in lists only if its status is paused
	Recoveries int               `json:"recoveries,omitempty"` // how often it was taken over from a lost worker since it made progress
	Due        time.Time         `json:"due,omitzero"`         // when its next timer is due
	Events     uint64            `json:"events"`               // length of its log
	Waits      []string          `json:"waits,omitempty"`
	WaitsSince time.Time         `json:"waitsSince,omitzero"`
	// WaitsFor lists the limits that the run or its steps wait for, for each of them the limit that
	// blocks it.
	WaitsFor []LimitWait `json:"waitsFor,omitempty"`
	Group    string      `json:"group,omitempty"` // failure group, see [FailureGroup]
	// RetriedAs is the last rerun of this run after it had failed or was canceled; empty if there
	// is none.
	RetriedAs string `json:"retriedAs,omitempty"`

	// The following fields are set by [Service.Run] only.
	StartBy      time.Time   `json:"startBy,omitzero"`
	StartedAt    time.Time   `json:"startedAt,omitzero"`     // when its code began
	UpdatedAt    time.Time   `json:"updatedAt,omitzero"`     // time of its last event
	PauseReason  string      `json:"pauseReason,omitempty"`  // why it is paused
	Canceling    bool        `json:"canceling,omitempty"`    // it was requested to end, and its code cleans up
	CancelReason string      `json:"cancelReason,omitempty"` // of the first request to end
	Worker       string      `json:"worker,omitempty"`       // name of the worker that has claimed it
	Recovery     *Recovery   `json:"recovery,omitempty"`     // the last one; nil if there was none or it is unknown
	FailedStep   *FailedStep `json:"failedStep,omitempty"`   // the step whose error made it fail
	Below        *Below      `json:"below,omitempty"`        // nil if there is none, or the store cannot count them
	RerunOf      string      `json:"rerunOf,omitempty"`      // the run that it repeats
	Depth        int         `json:"depth,omitempty"`        // distance from the root
	Blocked      string      `json:"blocked,omitempty"`      // why it is blocked, and what to do
	// Mismatch describes where the code does not match the log of a blocked run. It is nil if the
	// run is blocked for another reason or by a worker of an older release.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Damaged describes why the beginning or the end of the log cannot be read, and what to do. The
	// data in that part, the input or the outcome, are missing then. It is empty if both could be
	// read.
	Damaged string `json:"damaged,omitempty"`
	// Newer is the same for a log that was written by a newer release and is not damaged.
	Newer    string   `json:"newer,omitempty"`
	Unserved bool     `json:"unserved,omitempty"` // no live worker serves it
	Retries  []Retry  `json:"retries,omitempty"`
	Input    Payload  `json:"input,omitempty"`
	Result   Payload  `json:"result,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
	Next     string   `json:"next,omitempty"`    // the run in which it continued
	Actions  []string `json:"actions,omitempty"` // actions that are possible at present, see [Actions]
}

// Recovery describes that a run was taken over from a lost worker.
type Recovery struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`         // expired_claim, process_ended or session_closed
	From   string    `json:"from,omitempty"` // the lost worker
	By     string    `json:"by,omitempty"`   // the worker that detected the loss
}

// FailedStep is the step whose error made a run fail.
type FailedStep struct {
	Run      string `json:"run"` // the run that called it: the run itself or a descendant
	Step     string `json:"step"`
	Key      string `json:"key"`
	Attempts int    `json:"attempts"`
}

// Below counts the runs below a run: all descendants for a root, otherwise the children.
type Below struct {
	Statuses map[string]int `json:"statuses"` // number of runs by status
	Total    int            `json:"total"`
	// Exact reports that all were counted. Otherwise there are at least as many, because the store
	// counts only 1,000 runs.
	Exact bool `json:"exact"`
}

// String returns the number of runs and their statuses.
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

// String returns the reason and the time of the recovery.
func (r *Recovery) String() string {
	text := r.Reason + " at " + r.Time.Format(time.RFC3339)
	if r.From != "" {
		text += ", lost by " + r.From
	}
	return text
}

// String returns the name of the step and its run.
func (s *FailedStep) String() string {
	return fmt.Sprintf("%s (%s) of run %s, after %d attempts", s.Step, s.Key, s.Run, s.Attempts)
}

// Mismatch describes where the code of a blocked run does not match its log.
type Mismatch struct {
	Event    uint64 `json:"event"`              // its number in the log
	Recorded string `json:"recorded"`           // the operation in the log
	Asked    string `json:"asked,omitempty"`    // the operation that the code requests; empty if none
	Position string `json:"position,omitempty"` // of the call, as file:line
	Diff     string `json:"diff,omitempty"`     // if only the contents differ: - recorded, + requested
	Build    string `json:"build,omitempty"`    // of the code that recorded it
	Here     string `json:"here,omitempty"`     // of the code that does not match
}

// LimitWait is a limit whose permits a run or a step of it waits for.
type LimitWait struct {
	Step    string    `json:"step,omitempty"` // stored name of the step that waits; empty if the run itself waits
	StepKey string    `json:"stepKey,omitempty"`
	Limit   string    `json:"limit"`
	Key     string    `json:"key,omitempty"`
	Paused  bool      `json:"paused"`          // nothing is admitted until it is resumed
	Ahead   string    `json:"ahead,omitempty"` // the run at the head of the limiter queue; empty if this run is
	Since   time.Time `json:"since"`
}

// Place returns the name and the key of the limit, and whether it is paused.
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

// String describes which step waits, for which limit, and behind which run.
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
	Next    time.Time `json:"next,omitzero"` // zero while an attempt is running
}

// Failure is an error in its stored form.
type Failure = event.Failure

// RunPage is a page of a list of runs.
type RunPage struct {
	Runs   []Run  `json:"runs"`
	Cursor string `json:"cursor,omitempty"` // of the next page; empty for the last page
	// Partial reports that the budget was exhausted before the page was full. The next page
	// continues from there.
	Partial bool `json:"partial"`
	Looked  int  `json:"looked"`
}

// Counts contains the numbers of runs that match.
type Counts struct {
	Counts []Counted `json:"counts"` // the largest first
	Total  int       `json:"total"`
	// Exact reports that all runs were counted. Otherwise the budget was exhausted, and there are
	// at least as many.
	Exact bool `json:"exact"`
}

// Counted is the number of runs with a status.
type Counted struct {
	Status   string `json:"status,omitempty"` // empty: not ended, and not read
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	Runs     int    `json:"runs"`
}

func runOf(i *workflow.RunInfo) Run {
	r := Run{
		ID: string(i.ID), WorkflowID: i.WorkflowID, Workflow: i.Workflow, Queue: i.Queue, Status: string(i.Status), Tags: i.Tags,
		Paused: i.Paused, Recoveries: i.Recoveries, Worker: i.Worker, RerunOf: string(i.RerunOf), Depth: i.Depth,
		Parent: string(i.Parent), Root: string(i.Root), CreatedAt: i.CreatedAt.UTC(), EndedAt: utc(i.EndedAt), Due: utc(i.Due), Events: i.Events,
		Waits: i.Waits, WaitsSince: utc(i.WaitsSince), Group: i.Group, RetriedAs: string(i.RetriedAs), StartBy: utc(i.StartBy), Blocked: i.Blocked, Unserved: i.Unserved,
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
		r.Retries = append(r.Retries, Retry{Step: s.Step, Key: s.Key, Attempt: s.Attempt, Failed: s.Failed, Code: s.Code, Next: utc(s.Next)})
	}
	return r
}

// utc converts a time to UTC and keeps the zero time.
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
	// Runs begins with the top. Each run is followed by its children with their descendants, the
	// oldest first. The continuation of a run is its sibling.
	Runs []Branch `json:"runs"`
	// Partial reports that the root has more than 1,000 descendants, of which only the oldest were
	// read.
	Partial bool `json:"partial"`
}

// maxTree is the maximum number of runs that are read for a tree.
const maxTree = 1000

// Tree returns a run and up to 1,000 descendants. A principal with an owner sees only runs of that
// owner.
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

// tree is [Service.Tree] without the check of the principal's rights.
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

// began returns a time before which no run of the tree was created, so that the store need not read
// older runs.
func (s *Service) began(ctx context.Context, of *workflow.RunInfo) (time.Time, error) {
	if of.Root == of.ID {
		return of.CreatedAt, nil
	}
	root, err := s.client.Run(of.Root).Info(ctx)
	switch {
	case errors.Is(err, workflow.ErrRunNotFound): // it was purged: the tree is below a child of it
		return of.Root.Time().Add(-time.Hour), nil // its time is from the clock of the process that started it
	case err != nil:
		return time.Time{}, fmt.Errorf("find the root of run %s: %w", of.ID, err)
	}
	return root.CreatedAt, nil
}

// grow adds each run only once, because an imported run may be its own ancestor.
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
