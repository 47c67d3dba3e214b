package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Action is an action to apply to a run.
type Action struct {
	Verb string `json:"verb"` // one of [Actions]
	// Reason is recorded in the journal for every action, and in the log of the run for the actions
	// of [TakesReason]. A [Service] without a journal refuses a reason for all other actions.
	Reason string `json:"reason,omitempty"`
	Step   string `json:"step,omitempty"` // for fork only: the ID or the key of the step to continue from
	// Key is an idempotency key: repeated calls with the same key count as one request. Cancel,
	// terminate, release and delete are idempotent by nature and accept any key. An action that
	// creates a run returns the same run for the same key, and refuses a key that was used with a
	// different request.
	Key string `json:"-"`
}

// Acted is the result of an action.
type Acted struct {
	Run  string `json:"run"`
	Verb string `json:"verb"`
	New  string `json:"new,omitempty"` // the run that the action created
}

// Because contains the reason of a request that has no other parameters.
type Because struct {
	Reason string `json:"reason,omitempty"` // recorded in the journal; refused if the service has no journal
}

// verbDelete is the only action that cannot be undone.
const verbDelete = "delete"

// errNoStep is returned for a fork without a step.
var errNoStep = &InputError{What: "the step to fork from is missing", Fix: "name it by its id or its key: the events of the run have both"}

// reasoned lists the actions whose reason is recorded in the log of the run.
var reasoned = []string{"cancel", "terminate", "pause", "resume", "step", "release", "retry", "resume-new"}

// TakesReason reports whether the log of a run records the reason of an action.
func TakesReason(verb string) bool { return slices.Contains(reasoned, verb) }

// verb contains the name and the implementation of an action.
type verb struct {
	name string
	do   func(ctx context.Context, c *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error)
	// fits reports whether a run accepts the action, based on the fields that lists contain. now
	// decides the same question with all data of the run. If now is nil, fits is used instead.
	fits func(i *workflow.RunInfo) bool
	now  func(f *runFacts) bool
	// many applies the action to several runs with fewer requests to the store. If it is nil, the
	// service sends one request per run.
	many func(ctx context.Context, c *ops.Client, a Action, runs []workflow.RunID) []error
}

// done reports whether the state of a run shows that the action has taken effect.
func (v *verb) done(i *workflow.RunInfo) bool {
	if v.name == "cancel" || v.name == "terminate" { // a run that ended with another status was not canceled or terminated by this action
		return i.Status == workflow.StatusCanceled
	}
	return !v.takenBy(i)
}

// takenBy reports whether a run in its present state accepts the action. Runs of the runtime itself
// accept only delete, and only after they have ended.
func (v *verb) takenBy(i *workflow.RunInfo) bool {
	return v.fits(i) && (v.name == verbDelete || !event.Internal(i.Workflow))
}

// verbOf returns the action with the given name, or an error if there is none.
func verbOf(name string) (*verb, error) {
	i := slices.Index(Actions(), name)
	if i < 0 {
		return nil, &InputError{What: fmt.Sprintf("there is no action %q", name), Fix: "use one of " + strings.Join(Actions(), ", ")}
	}
	return &verbs[i], nil
}

// roleFor returns the role that an action requires.
func roleFor(name string) Role {
	if name == verbDelete {
		return RoleAdmin
	}
	return RoleOperator
}

// verbs lists all actions.
var verbs = []verb{
	{
		name: "cancel", do: none(func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) error {
			return h.Cancel(ctx, a.Reason)
		}), fits: open,
		many: func(ctx context.Context, c *ops.Client, a Action, runs []workflow.RunID) []error {
			return c.CancelMany(ctx, a.Reason, runs...)
		},
	},
	{name: "pause", do: none(func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) error {
		return h.Pause(ctx, a.options()...)
	}), fits: func(i *workflow.RunInfo) bool { return open(i) && (!i.Paused || i.Debug) },
		now: func(f *runFacts) bool { return !f.orders.Canceling && !f.orders.Paused }},
	{name: "resume", do: none(func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) error {
		return h.Resume(ctx, a.options()...)
	}), fits: func(i *workflow.RunInfo) bool { return open(i) && (i.Paused || i.Delayed) }},
	{name: "step", do: none(func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) error {
		return h.Step(ctx, a.options()...)
	}), fits: open, now: func(f *runFacts) bool { return f.Debug }},
	{name: "release", do: none(func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) error {
		return h.Release(ctx, a.options()...)
	}), fits: only(workflow.StatusHeld)},
	{name: "retry", do: func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.Retry(ctx, a.options()...)
	}, fits: untried(workflow.StatusFailed), now: goesOn},
	{name: "resume-new", do: func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.RetryCanceled(ctx, a.options()...)
	}, fits: untried(workflow.StatusCanceled), now: goesOn},
	{name: "restart", do: func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.Restart(ctx, a.key()...)
	}, fits: repeats, now: func(f *runFacts) bool { return f.input && !f.taken }},
	{name: "fork", do: func(ctx context.Context, _ *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		if a.Step == "" {
			return nil, errNoStep
		}
		return h.Fork(ctx, a.Step, a.key()...)
	}, fits: func(i *workflow.RunInfo) bool { return i.Events > 1 && repeats(i) }, now: func(f *runFacts) bool { return f.step && !f.taken }},
	{name: "terminate", do: none(func(ctx context.Context, c *ops.Client, h *workflow.Handle, a Action) error {
		return c.Terminate(ctx, h.ID(), a.Reason)
	}), fits: open},
	{name: verbDelete, do: none(func(ctx context.Context, c *ops.Client, h *workflow.Handle, _ Action) error {
		return c.Delete(ctx, h.ID())
	}), fits: func(i *workflow.RunInfo) bool { return !open(i) }},
}

// options returns the action's parameters as command options of package workflow.
func (a Action) options() []workflow.CommandOption {
	opts := []workflow.CommandOption{workflow.Reason(a.Reason)}
	for _, key := range a.key() {
		opts = append(opts, key)
	}
	return opts
}

// key returns the idempotency key as a send option. It returns no option if Key is empty.
func (a Action) key() []workflow.SendOption {
	if a.Key == "" {
		return nil
	}
	return []workflow.SendOption{workflow.IdempotencyKey(a.Key)}
}

func none(do func(context.Context, *ops.Client, *workflow.Handle, Action) error) func(context.Context, *ops.Client, *workflow.Handle, Action) (*workflow.Handle, error) {
	return func(ctx context.Context, c *ops.Client, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return nil, do(ctx, c, h, a)
	}
}

func open(i *workflow.RunInfo) bool { return i.EndedAt.IsZero() }

func only(s workflow.Status) func(*workflow.RunInfo) bool {
	return func(i *workflow.RunInfo) bool { return i.Status == s }
}

// untried returns a function that reports whether a run ended with status s and has not been
// retried.
func untried(s workflow.Status) func(*workflow.RunInfo) bool {
	return func(i *workflow.RunInfo) bool { return i.Status == s && i.RetriedAs == "" }
}

// Actions returns the verbs of all actions.
func Actions() []string {
	var all []string
	for _, v := range verbs {
		all = append(all, v.name)
	}
	return all
}

// runFacts contains the data that determine which actions a run accepts.
type runFacts struct {
	*workflow.RunInfo
	input  bool              // whether the input is known; a run that is still collecting starts has no input
	step   bool              // whether the log contains a step to fork from
	last   *workflow.RunInfo // the run that a retry would repeat; see lastTry
	undone bool              // whether the run has executed its compensations
	taken  bool              // whether another run is the active run of the same workflow ID, so that a rerun would conflict
	orders ops.Orders
}

// goesOn reports whether a new run can reuse the results of the run.
func goesOn(f *runFacts) bool { return !f.undone && !f.taken }

// repeats reports whether a run can be rerun, based on the fields that lists contain. No other run
// of a singleton can start while one is open.
func repeats(i *workflow.RunInfo) bool { return !open(i) || !i.Singleton() }

// actionsFor returns the verbs of the actions that would succeed on a run and change something. For
// runs of the runtime itself see takenBy.
func actionsFor(f *runFacts) []string {
	var all []string
	for _, v := range verbs {
		about := f.RunInfo
		if v.retries() && f.last != nil {
			about = f.last
		}
		if v.takenBy(about) && (v.now == nil || v.now(f)) {
			all = append(all, v.name)
		}
	}
	return all
}

// retries reports whether the action continues a run from its end. Such an action applies to the
// latest rerun of the run.
func (v *verb) retries() bool { return v.name == "retry" || v.name == "resume-new" }

// lastTry follows the chain of reruns that begins with i as long as the runs have the status of i,
// and returns the last run that it reads. If that run has the same status as i, a retry of i would
// repeat it.
func (s *Service) lastTry(ctx context.Context, i *workflow.RunInfo) (*workflow.RunInfo, error) {
	var chain event.Loop
	last := *i
	for last.RetriedAs != "" && last.Status == i.Status && !chain.Closed(last.ID) {
		next, err := s.client.Run(last.RetriedAs).Info(ctx)
		switch {
		case errors.Is(err, workflow.ErrRunNotFound): // the rerun was deleted, so a retry creates another one
			last.RetriedAs = ""
		case err != nil:
			return nil, fmt.Errorf("look at run %s, as which run %s was retried: %w", last.RetriedAs, last.ID, err)
		default:
			last = next
		}
	}
	return &last, nil
}

// takes reports whether a run from a list accepts an action. Lists do not contain all data. If
// necessary, takes reads the log to determine whether a held or blocked run is paused, and whether
// a sleeping run is a delayed rerun. For the status of a rerun, takes reads its record.
func (s *Service) takes(ctx context.Context, v *verb, i *workflow.RunInfo) bool {
	if v.retries() && i.RetriedAs != "" {
		last, err := s.lastTry(ctx, i)
		return err == nil && v.takenBy(last)
	}
	if v.name == "resume" && i.Status == workflow.StatusSleeping || (v.name == "resume" || v.name == "pause") && (i.Status == workflow.StatusHeld || i.Status == workflow.StatusBlocked) {
		if info, err := s.client.Run(i.ID).Info(ctx); err == nil {
			return v.takenBy(&info)
		}
	}
	if v.name == "pause" && i.Status == workflow.StatusPaused { // a run in debug mode may be between two operations
		info, err := s.client.Run(i.ID).Info(ctx)
		if err != nil || !info.Debug {
			return false
		}
		orders, err := s.ops.Orders(ctx, i.ID)
		return err == nil && !orders.Paused && !orders.Canceling && v.takenBy(&info)
	}
	return v.takenBy(i)
}

// checkReason returns an error for a reason that cannot be recorded. kept reports whether the log
// of the run records the reason.
func checkReason(verb, reason string, kept bool) error {
	if kept {
		return checkText(reason, store.MaxReason)
	}
	return CheckReason(verb, reason, false)
}

// CheckReason returns an [*InputError] if the reason cannot be recorded. If the log of the run does
// not record the reason of the action, the reason requires a journal, must be UTF-8, and must have
// at most 1,024 bytes. The empty reason is always valid. [Recorded] makes the same check.
// CheckReason is for callers that need the result before they call Recorded.
func CheckReason(verb, reason string, journal bool) error {
	if err := checkText(reason, store.MaxJournalText); err != nil {
		return err
	}
	if reason != "" && !journal {
		return &InputError{What: verb + " takes no reason here: reasons are stored in a journal, and the store has none", Fix: "leave it out"}
	}
	return nil
}

func checkText(reason string, limit int) error {
	if err := store.CheckText("reason", reason, limit); err != nil {
		return &InputError{What: err.Error(), Fix: "give a shorter reason, in UTF-8"}
	}
	return nil
}

// check validates an action and returns its verb.
func (a Action) check() (*verb, error) {
	v, err := verbOf(a.Verb)
	if err == nil {
		err = checkReason(a.Verb, a.Reason, TakesReason(a.Verb))
	}
	return v, err
}

// Act applies an action to a run.
func (s *Service) Act(ctx context.Context, ref string, a Action) (Acted, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: ref, Detail: a.Step, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Acted, error) {
		a.Reason = left(&e, a.Reason, TakesReason(a.Verb))
		return s.act(ctx, ref, a)
	},
		func(done Acted, e *JournalEntry) { e.Run, e.New = done.Run, done.New })
}

// act is like [Service.Act], but does not write the journal.
func (s *Service) act(ctx context.Context, ref string, a Action) (Acted, error) {
	if err := s.who.Need(roleFor(a.Verb), "to "+a.Verb+" runs"); err != nil {
		return Acted{}, err
	}
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Acted{}, err
	}
	v, err := a.check()
	if err != nil {
		return Acted{}, err
	}
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Acted{}, err
	}
	made, err := v.do(ctx, s.ops, h, a)
	if err != nil {
		return Acted{}, err // the error names the verb and the run
	}
	done := Acted{Run: string(info.ID), Verb: a.Verb}
	if made != nil {
		done.New = string(made.ID())
	}
	return done, nil
}
