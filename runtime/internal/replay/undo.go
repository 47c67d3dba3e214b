package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Undo is a registered compensation. It undoes an effect of the code if the run fails or is
// canceled.
type Undo struct {
	run    *Run
	key    string
	code   func(b *Branch, s *Scope) *event.Failure
	place  node[Undo] // node in the list of registered undos
	steps  []string   // steps that the compensation has called
	failed *event.Failure
	over   Promise
}

// windingUp is the state of the execution of compensations at the end of a run.
type windingUp struct {
	begun bool
	by    *Branch     // the branch that executes the compensations
	undo  *Undo       // the compensation that is being executed; nil if none
	alone subscribers // notified when no other branch is open
}

// Compensate registers a compensation, which is executed at most once.
func (b *Branch) Compensate(code func(b *Branch, s *Scope) *event.Failure) *Undo {
	b.enter()
	if b.run.windup.undo != nil {
		panic(&MisuseError{"workflow: Compensate was called by a compensation (" + b.run.windup.undo.key + "): compensations are not compensated"})
	}
	u := &Undo{run: b.run, key: b.Key("undo"), code: code}
	b.run.undos.push(&u.place, u)
	return u
}

// Withdraw removes the compensation, unless its execution has begun.
func (u *Undo) Withdraw() {
	r := u.run
	if !onCoroutine() {
		r.stop(r.name)
	}
	switch {
	case r.dying || r.err != nil:
		return
	case r.current == nil:
		panic(&MisuseError{"workflow: the function that removes a compensation was called from outside of the workflow's code"})
	case r.pure != "":
		panic(&MisuseError{"workflow: a compensation was removed inside of " + r.pure})
	}
	u.place.remove()
}

// compensate executes the registered compensations, newest first, if the run fails or is canceled.
// Before that it cancels everything under the run's scope and waits for the open branches, so that
// their last operations can be undone as well. It returns the ending, which contains the results of
// the compensations.
func (b *Branch) compensate(how Ending) Ending {
	r := b.run
	if r.undos.n == 0 || how.Type != event.RunFailed && how.Type != event.RunCanceled {
		return how
	}
	r.windup.begun, r.windup.by = true, b
	r.root.cancel(ErrCanceled)
	for r.branches.n > 1 {
		b.wait("the end of the other branches", "", &r.windup.alone)
	}
	f := *how.Failure
	undone, notUndone := tell(f.Undone), tell(f.NotUndone)
	for r.undos.last != nil {
		u := r.undos.last.item
		u.place.remove()
		b.undo(u)
		if u.failed == nil {
			undone.add(u.describe())
		} else {
			notUndone.add(u.describe() + ": " + failure.Cut(u.failed.Message, mostTold))
		}
	}
	f.Undone, f.NotUndone = undone.list(), notUndone.list()
	how.Failure = &f
	return how
}

// undo executes one compensation in a new branch and a new scope.
func (b *Branch) undo(u *Undo) {
	r := b.run
	r.windup.undo = u
	r.open(u.key, func(nb *Branch) { u.finish(u.code(nb, nb.NewScope(nil))) })
	b.wait("compensation ", u.key, &u.over)
	r.windup.undo = nil
}

func (u *Undo) finish(failed *event.Failure) {
	if !u.over.done {
		u.failed = failed
		u.over.Resolve(nil)
	}
}

// mostTold bounds the description of one compensation in the terminal event, in bytes.
const mostTold = 1 << 10

// mostToldInAll bounds the total length of the descriptions of all executed compensations, and of
// all failed ones. A run may register any number of compensations, and its failure is a single
// event in one commit.
const mostToldInAll = failure.MaxText

// told is a summary of compensations for the terminal event: the descriptions of the first ones and
// the number of the others.
type told struct {
	first       []string
	bytes, more int
}

func tell(already []string) (t told) {
	for _, one := range already {
		t.add(one)
	}
	return t
}

func (t *told) add(one string) {
	if t.bytes += len(one); t.bytes > mostToldInAll {
		t.more++
		return
	}
	t.first = append(t.first, one)
}

func (t *told) list() []string {
	if t.more == 0 {
		return t.first
	}
	return append(t.first, fmt.Sprintf("… and %d more", t.more))
}

// describe returns the key of the compensation and the steps that it has called.
func (u *Undo) describe() string {
	if len(u.steps) == 0 {
		return u.key
	}
	return failure.Cut(u.key+": "+strings.Join(slices.Compact(u.steps), ", "), mostTold)
}
