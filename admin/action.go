package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Action says what to do with a run.
type Action struct {
	Verb string `json:"verb"` // one of [Actions]
	// Reason stands in the log for the actions of [TakesReason], and in the journal for all of them. Without a journal, such as
	// on a [Service] that is used by itself, other actions with a reason are refused.
	Reason string `json:"reason,omitempty"`
	Step   string `json:"step,omitempty"` // of fork: the id or the key of the step to go on from
	// Key says that asking again with it is the same request. Actions that are done once however often
	// they are asked for take any key: cancel, terminate, release and delete. Those that make a new run
	// answer the same key with the same run, and refuse the key of a request that asked for something else.
	Key string `json:"-"`
}

// Acted says what came of an action.
type Acted struct {
	Run  string `json:"run"`
	Verb string `json:"verb"`
	New  string `json:"new,omitempty"` // the run that it has made
}

// Because says why somebody asks for something that says no more than what it is.
type Because struct {
	Reason string `json:"reason,omitempty"` // kept in the journal; refused where there is no journal
}

// verbDelete is the one action that cannot be undone.
const verbDelete = "delete"

// errNoStep refuses a fork that does not say from where.
var errNoStep = &InputError{What: "the step to fork from is missing", Fix: "name it by its id or its key: the events of the run have both"}

// reasoned are the actions for whose reason a log has a place.
var reasoned = []string{"cancel", "terminate", "pause", "resume", "step", "release", "retry", "resume-new"}

// TakesReason reports whether an action takes a reason.
func TakesReason(verb string) bool { return slices.Contains(reasoned, verb) }

// verb is an action as Handle has it.
type verb struct {
	name string
	do   func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error)
	// fits reports whether a run takes the action as far as a list tells, now whether it does by all that is known of it; nil: as fits.
	fits func(i *workflow.RunInfo) bool
	now  func(f *runFacts) bool
	// many does it with several runs for fewer questions to the store; nil: it is done with each.
	many func(ctx context.Context, c *workflow.Client, a Action, runs []workflow.RunID) []error
}

// done reports whether a run that took the action shows its effect.
func (v *verb) done(i *workflow.RunInfo) bool {
	if v.name == "cancel" || v.name == "terminate" { // other ends are not theirs
		return i.Status == workflow.StatusCanceled
	}
	return !v.takenBy(i)
}

// takenBy reports whether a run takes the action as it is now. Those of the runtime's own take none: they can be deleted once
// they have ended.
func (v *verb) takenBy(i *workflow.RunInfo) bool {
	return v.fits(i) && (v.name == verbDelete || !event.Internal(i.Workflow))
}

// verbOf returns the action of a name.
func verbOf(name string) (*verb, error) {
	i := slices.Index(Actions(), name)
	if i < 0 {
		return nil, &InputError{What: fmt.Sprintf("there is no action %q", name), Fix: "use one of " + strings.Join(Actions(), ", ")}
	}
	return &verbs[i], nil
}

// roleFor returns the role that an action needs.
func roleFor(name string) Role {
	if name == verbDelete {
		return RoleAdmin
	}
	return RoleOperator
}

// verbs are all actions.
var verbs = []verb{
	{
		name: "cancel", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Cancel(ctx, a.Reason) }), fits: open,
		many: func(ctx context.Context, c *workflow.Client, a Action, runs []workflow.RunID) []error {
			return c.CancelMany(ctx, a.Reason, runs...)
		},
	},
	{name: "pause", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Pause(ctx, a.options()...) }), fits: func(i *workflow.RunInfo) bool { return open(i) && (!i.Paused || i.Debug) },
		now: func(f *runFacts) bool { return !f.orders.Canceling && !f.orders.Paused }},
	{name: "resume", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Resume(ctx, a.options()...) }), fits: func(i *workflow.RunInfo) bool { return open(i) && (i.Paused || i.Delayed) }},
	{name: "step", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Step(ctx, a.options()...) }), fits: open, now: func(f *runFacts) bool { return f.Debug }},
	{name: "release", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Release(ctx, a.options()...) }), fits: only(workflow.StatusHeld)},
	{name: "retry", do: func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.Retry(ctx, a.options()...)
	}, fits: untried(workflow.StatusFailed), now: goesOn},
	{name: "resume-new", do: func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.RetryCanceled(ctx, a.options()...)
	}, fits: untried(workflow.StatusCanceled), now: goesOn},
	{name: "restart", do: func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return h.Restart(ctx, a.key()...)
	}, fits: repeats, now: func(f *runFacts) bool { return f.input && !f.taken }},
	{name: "fork", do: func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		if a.Step == "" {
			return nil, errNoStep
		}
		return h.Fork(ctx, a.Step, a.key()...)
	}, fits: func(i *workflow.RunInfo) bool { return i.Events > 1 && repeats(i) }, now: func(f *runFacts) bool { return f.step && !f.taken }},
	{name: "terminate", do: none(func(ctx context.Context, h *workflow.Handle, a Action) error { return h.Terminate(ctx, a.Reason) }), fits: open},
	{name: verbDelete, do: none(func(ctx context.Context, h *workflow.Handle, _ Action) error { return h.Delete(ctx) }), fits: func(i *workflow.RunInfo) bool { return !open(i) }},
}

// options returns what a command takes of an action.
func (a Action) options() []workflow.CommandOption {
	opts := []workflow.CommandOption{workflow.Reason(a.Reason)}
	for _, key := range a.key() {
		opts = append(opts, key)
	}
	return opts
}

// key returns the idempotency key, if there is one.
func (a Action) key() []workflow.SendOption {
	if a.Key == "" {
		return nil
	}
	return []workflow.SendOption{workflow.IdempotencyKey(a.Key)}
}

func none(do func(context.Context, *workflow.Handle, Action) error) func(context.Context, *workflow.Handle, Action) (*workflow.Handle, error) {
	return func(ctx context.Context, h *workflow.Handle, a Action) (*workflow.Handle, error) {
		return nil, do(ctx, h, a)
	}
}

func open(i *workflow.RunInfo) bool { return i.EndedAt.IsZero() }

func only(s workflow.Status) func(*workflow.RunInfo) bool {
	return func(i *workflow.RunInfo) bool { return i.Status == s }
}

// untried reports whether a run has ended so, and nobody has tried it again.
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

// runFacts is what is known of a run when it is shown by itself.
type runFacts struct {
	*workflow.RunInfo
	input  bool              // its input is known: a run that collects starts has none yet
	step   bool              // its log has a step to fork from
	last   *workflow.RunInfo // what a retry is about: see lastTry
	undone bool              // that has undone what it did
	taken  bool              // another run is the active one of its workflow id, which a rerun would have
	orders workflow.Orders
}

// goesOn reports whether a new run would take over what was done.
func goesOn(f *runFacts) bool { return !f.undone && !f.taken }

// repeats reports whether a run can be repeated as far as a list tells: beside an open run of a singleton there is no other.
func repeats(i *workflow.RunInfo) bool { return !open(i) || !i.Singleton() }

// actionsFor returns the verbs that would succeed on a run now, and would change something.
func actionsFor(f *runFacts) []string {
	var all []string
	if event.Internal(f.Workflow) {
		return nil // the run that it works for is the one to act on
	}
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

// retries reports whether an action goes on where a run has ended: it follows the reruns that there are.
func (v *verb) retries() bool { return v.name == "retry" || v.name == "resume-new" }

// lastTry returns the run of which a retry of a run would make a new one: itself or, if that was retried, the last rerun that has ended in
// the same way. If the last rerun has not, it is that one, or the one before, which names it.
func (s *Service) lastTry(ctx context.Context, i *workflow.RunInfo) (*workflow.RunInfo, error) {
	var chain event.Loop
	last := *i
	for last.RetriedAs != "" && last.Status == i.Status && !chain.Closed(last.ID) {
		next, err := s.client.Run(last.RetriedAs).Info(ctx)
		switch {
		case errors.Is(err, workflow.ErrRunNotFound): // it was deleted: a retry makes another one
			last.RetriedAs = ""
		case err != nil:
			return nil, fmt.Errorf("look at run %s, as which run %s was retried: %w", last.RetriedAs, last.ID, err)
		default:
			last = next
		}
	}
	return &last, nil
}

// takes reports whether a run that a list has found takes an action. Whether a held or blocked run is paused, and whether one that sleeps is a
// rerun that is delayed, stands in its log only, and what has become of a rerun in the record of that.
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
	if v.name == "pause" && i.Status == workflow.StatusPaused { // one in debug mode may be between two operations
		info, err := s.client.Run(i.ID).Info(ctx)
		if err != nil || !info.Debug {
			return false
		}
		orders, err := s.client.Run(i.ID).Orders(ctx)
		return err == nil && !orders.Paused && !orders.Canceling && v.takenBy(&info)
	}
	return v.takenBy(i)
}

// checkReason refuses a reason that cannot be kept. kept: what is done has a place for it.
func checkReason(verb, reason string, kept bool) error {
	if kept {
		return checkText(reason, workflow.MaxReason)
	}
	return CheckReason(verb, reason, false)
}

// CheckReason refuses a reason that only the journal has a place for, by an [*InputError], if it has more than 1,024 bytes, is not UTF-8, or
// no journal is kept. [Recorded] does so itself: this is for what must be known earlier. The empty reason is always allowed.
func CheckReason(verb, reason string, journal bool) error {
	if err := checkText(reason, store.MaxJournalText); err != nil {
		return err
	}
	if reason != "" && !journal {
		return &InputError{What: verb + " takes no reason here: only a journal has a place for it, and none is kept", Fix: "leave it out"}
	}
	return nil
}

func checkText(reason string, limit int) error {
	if err := store.CheckText("reason", reason, limit); err != nil {
		return &InputError{What: err.Error(), Fix: "give a shorter reason, in UTF-8"}
	}
	return nil
}

// check returns the verb of an action that makes sense.
func (a Action) check() (*verb, error) {
	v, err := verbOf(a.Verb)
	if err == nil {
		err = checkReason(a.Verb, a.Reason, TakesReason(a.Verb))
	}
	return v, err
}

// Act controls a run.
func (s *Service) Act(ctx context.Context, ref string, a Action) (Acted, error) {
	e := s.entry(JournalEntry{Action: a.Verb, Target: ref, Detail: a.Step, Reason: a.Reason, Key: a.Key})
	return recorded(ctx, s, &e, func(ctx context.Context) (Acted, error) {
		a.Reason = left(&e, a.Reason, TakesReason(a.Verb))
		return s.act(ctx, ref, a)
	},
		func(done Acted, e *JournalEntry) { e.Run, e.New = done.Run, done.New })
}

// act is [Service.Act] without the journal.
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
	made, err := v.do(ctx, h, a)
	if err != nil {
		return Acted{}, err // which names the verb and the run
	}
	done := Acted{Run: string(info.ID), Verb: a.Verb}
	if made != nil {
		done.New = string(made.ID())
	}
	return done, nil
}
