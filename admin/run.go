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

// Run is a run as it is now.
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
	Paused     bool              `json:"paused,omitempty"`     // its code stands still, whatever its status is; lists: if that is paused
	Recoveries int               `json:"recoveries,omitempty"` // how often it was taken from a lost worker since it made progress
	Due        time.Time         `json:"due,omitzero"`         // when something in it is due next
	Events     uint64            `json:"events"`               // length of its log
	Waits      []string          `json:"waits,omitempty"`
	WaitsSince time.Time         `json:"waitsSince,omitzero"`
	// WaitsFor has the limits at which it waits, or steps of it that use limits: for each the one that lets it not begin now.
	WaitsFor []LimitWait `json:"waitsFor,omitempty"`
	Group    string      `json:"group,omitempty"` // of failures: see [FailureGroup]
	// RetriedAs is the last run that was made of this one after it had failed or was cancelled; left out: there is none.
	RetriedAs string `json:"retriedAs,omitempty"`

	// The others are set by [Service.Run] only.
	StartBy      time.Time   `json:"startBy,omitzero"`
	StartedAt    time.Time   `json:"startedAt,omitzero"`     // when its code began
	UpdatedAt    time.Time   `json:"updatedAt,omitzero"`     // time of its last event
	PauseReason  string      `json:"pauseReason,omitempty"`  // why it is paused
	Canceling    bool        `json:"canceling,omitempty"`    // it was asked to end, and its code cleans up
	CancelReason string      `json:"cancelReason,omitempty"` // of the first request to end
	Worker       string      `json:"worker,omitempty"`       // the name of the worker that has it
	Recovery     *Recovery   `json:"recovery,omitempty"`     // the last one; left out: there was none, or it is not known
	FailedStep   *FailedStep `json:"failedStep,omitempty"`   // with whose error it has failed
	Below        *Below      `json:"below,omitempty"`        // left out: there is none, or the store cannot tell
	RerunOf      string      `json:"rerunOf,omitempty"`      // the run of which it was made
	Depth        int         `json:"depth,omitempty"`        // below the root
	Blocked      string      `json:"blocked,omitempty"`      // why it is blocked, and what to do
	// Mismatch says where the code does not fit the log of a blocked run; left out: it is blocked by something else, or by a worker of
	// an older release.
	Mismatch *Mismatch `json:"mismatch,omitempty"`
	// Damaged says why the beginning or the end of its log cannot be read, and what to do. What stands there is left out then: the input,
	// or how the run has ended. Left out: both could be read.
	Damaged string `json:"damaged,omitempty"`
	// Newer is the same of a log that a newer release has written: nothing of it is damaged.
	Newer    string   `json:"newer,omitempty"`
	Unserved bool     `json:"unserved,omitempty"` // no worker that lives serves it
	Retries  []Retry  `json:"retries,omitempty"`
	Input    Payload  `json:"input,omitempty"`
	Result   Payload  `json:"result,omitempty"`
	Failure  *Failure `json:"failure,omitempty"`
	Next     string   `json:"next,omitempty"`    // the run that it has continued as
	Actions  []string `json:"actions,omitempty"` // what can be done with it now: see [Actions]
}

// Recovery is that a run was taken from a worker that was lost.
type Recovery struct {
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"`         // expired_claim, process_ended or session_closed
	From   string    `json:"from,omitempty"` // the worker that was lost
	By     string    `json:"by,omitempty"`   // the worker that has noticed
}

// FailedStep is the step with whose error a run has failed.
type FailedStep struct {
	Run      string `json:"run"` // that has called it: the run itself, or a child of it
	Step     string `json:"step"`
	Key      string `json:"key"`
	Attempts int    `json:"attempts"`
}

// Below counts the runs below a run: of one without a parent all of them, of others the children.
type Below struct {
	Statuses map[string]int `json:"statuses"` // how many have each status
	Total    int            `json:"total"`
	// Exact reports that these are all; otherwise there are at least so many: the store looks at 1,000 runs.
	Exact bool `json:"exact"`
}

// String returns how many there are, and in which states.
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

// String returns why and when it was.
func (r *Recovery) String() string {
	text := r.Reason + " at " + r.Time.Format(time.RFC3339)
	if r.From != "" {
		text += ", lost by " + r.From
	}
	return text
}

// String returns the step, and where it is.
func (s *FailedStep) String() string {
	return fmt.Sprintf("%s (%s) of run %s, after %d attempts", s.Step, s.Key, s.Run, s.Attempts)
}

// Mismatch is where the code of a blocked run does not fit its log.
type Mismatch struct {
	Event    uint64 `json:"event"`              // number of the one in the log
	Recorded string `json:"recorded"`           // what the log has
	Asked    string `json:"asked,omitempty"`    // what the code asks for; empty: nothing
	Position string `json:"position,omitempty"` // of the call, as file:line
	Diff     string `json:"diff,omitempty"`     // if only their contents differ: - recorded, + asked for
	Build    string `json:"build,omitempty"`    // of the code that has recorded it
	Here     string `json:"here,omitempty"`     // of the code that does not fit
}

// LimitWait is a limit of which a run, or a step of it, waits for permits.
type LimitWait struct {
	Step    string    `json:"step,omitempty"` // stored name of the step that waits; left out: the run itself waits
	StepKey string    `json:"stepKey,omitempty"`
	Limit   string    `json:"limit"`
	Key     string    `json:"key,omitempty"`
	Paused  bool      `json:"paused"`          // nothing begins there until it is resumed
	Ahead   string    `json:"ahead,omitempty"` // the run whose turn is next there; left out: this one is next
	Since   time.Time `json:"since"`
}

// Place returns the limit as people write it: its name, its key, and whether it is paused.
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

// String returns what waits, where, and behind which run.
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

// Payload is JSON as it is stored.
type Payload = json.RawMessage

// Retry is a step that is tried again.
type Retry struct {
	Step    string    `json:"step"`
	Key     string    `json:"key"`
	Attempt int       `json:"attempt"`
	Failed  string    `json:"failed"`
	Code    string    `json:"code,omitempty"`
	Next    time.Time `json:"next,omitzero"` // zero: it is under way
}

// Failure is an error as it stands in a log.
type Failure = event.Failure

// RunPage is a part of a list.
type RunPage struct {
	Runs   []Run  `json:"runs"`
	Cursor string `json:"cursor,omitempty"` // of the next page; empty: there is none
	// Partial says that the budget was spent before the page was full: the next page goes on.
	Partial bool `json:"partial"`
	Looked  int  `json:"looked"`
}

// Counts has how many runs match.
type Counts struct {
	Counts []Counted `json:"counts"` // those with most runs first
	Total  int       `json:"total"`
	// Exact says that these are all; otherwise the budget was spent, and there are at least so many.
	Exact bool `json:"exact"`
}

// Counted has how many runs of a kind there are.
type Counted struct {
	Status   string `json:"status,omitempty"` // empty: not ended, and not looked at
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

// utc leaves the zero time as it is.
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
	Depth int `json:"depth"` // below the top of the tree, which has 0
}

// Tree is a run and the runs below it.
type Tree struct {
	// Runs begin with the top. Each one is followed by those that it has started, the oldest first, with all below them. The
	// continuation of a run stands beside it.
	Runs []Branch `json:"runs"`
	// Partial says that the run at the root has more than 1,000 below it: only the oldest were looked at.
	Partial bool `json:"partial"`
}

// maxTree bounds how many runs a tree has.
const maxTree = 1000

// Tree returns a run and those below it, up to 1,000.
// Of a tree a principal with an owner sees the runs of that owner.
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

// tree is [Service.Tree] without the limits of the principal.
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

// began returns a time before which there is nothing of the tree of a run, so that a store need not look at what is older.
func (s *Service) began(ctx context.Context, of *workflow.RunInfo) (time.Time, error) {
	if of.Root == of.ID {
		return of.CreatedAt, nil
	}
	root, err := s.client.Run(of.Root).Info(ctx)
	switch {
	case errors.Is(err, workflow.ErrRunNotFound): // it was purged: what is looked for is below a child of it
		return of.Root.Time().Add(-time.Hour), nil // which is by the clock of whoever has started it
	case err != nil:
		return time.Time{}, fmt.Errorf("find the root of run %s: %w", of.ID, err)
	}
	return root.CreatedAt, nil
}

// grow takes each run once: one that an import has brought may be its own parent.
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
