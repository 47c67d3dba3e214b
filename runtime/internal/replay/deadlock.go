package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// A run is deadlocked when every open branch waits and none of them waits for an event from
// outside. Such events are the end of a step, timer, child or message to another run, a message, a
// payload, and an ask. In a deadlock each branch waits for other branches or for nothing.
//
// The possibility of a cancel does not count as such an event. Otherwise no run would ever be
// deadlocked. The exception is a branch that waits only for the end of its context, in a Select
// without cases: it waits for a cancel and is not deadlocked.
//
// A knot is a set of branches that wait only for each other. The first deadlock of a run is broken:
// the root scope is canceled, and the waits of the knots return [ErrDeadlock]. So the code cleans
// up as after a cancel, and its effects are undone. The run fails, whatever the code returns. If a
// second deadlock occurs, the branches are unwound.

// TypeDeadlock is the wire name of a [*DeadlockError].
const TypeDeadlock = "flowgen.DeadlockError"

// ErrDeadlock is the error of the scopes of a deadlocked run. It matches ErrCanceled.
var ErrDeadlock error = deadlockEnd{}

type deadlockEnd struct{} //nolint:errname // a DeadlockError is another one

func (deadlockEnd) Error() string {
	return ErrCanceled.Error() + ": each branch of the run waits for another one"
}
func (deadlockEnd) Unwrap() error { return ErrCanceled }

// LocalIs marks Is as valid only in this process, like for ErrCanceled.
func (deadlockEnd) LocalIs() {}

// DeadlockError is the failure of a run with the code "deadlock". Each branch waited for another
// branch or for nothing, and no event from outside could have changed that.
type DeadlockError struct {
	// Waits has an entry for each branch, at most 100. Branches of knots come first.
	Waits []BranchWait `json:"waits"`
	// More is the number of branches without an entry.
	More int `json:"more,omitempty"`
}

// BranchWait describes the wait of one branch in a deadlock.
type BranchWait struct {
	Branch   string   `json:"branch"`             // path of the branch, such as fulfil/go#1
	For      string   `json:"for"`                // description of the wait
	Branches []string `json:"branches,omitempty"` // paths of the branches for which the branch waited
	Position string   `json:"position,omitempty"` // file:line of the call that waited
	Knot     bool     `json:"knot,omitempty"`     // whether all branches for which it waited, directly or indirectly, waited for it; true if it waited for no branch
}

// maxWaits bounds the entries in the error of a deadlock. toldWaits bounds the entries in its text.
const maxWaits, toldWaits = 100, 10

// Error lists the wait of each branch with its position.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("the run can never continue: each of its branches waits for another one")
	for i, w := range e.Waits[:min(len(e.Waits), toldWaits)] {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + "branch " + w.Branch + " waits for " + w.For)
		if w.Position != "" {
			b.WriteString(" at " + w.Position)
		}
	}
	if more := len(e.Waits) + e.More - toldWaits; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

func init() { failure.RegisterForm((*DeadlockError).stored, nil) }

// stored returns the stored form of e.
func (e *DeadlockError) stored() *event.Failure {
	data, _ := json.Marshal(e) // encoding strings and numbers cannot fail
	return &event.Failure{Code: event.CodeDeadlock, Type: TypeDeadlock, Message: failure.Cut(e.Error(), failure.MaxText), Data: data}
}

// awaits describes the wait of a blocked branch that does not wait for an event from outside.
type awaits struct {
	scope   *Scope   // the scope whose end also ends the wait; nil if none
	promise *Promise // the awaited promise; nil if none
	cases   []Case   // cases of a Select
	selects bool
}

// outside reports whether the value of a source comes from outside of the code.
func outside(r *Run, s source) bool {
	switch s := s.(type) {
	case *Op, *topic:
		return true
	case *Promise:
		return s.outside()
	case *subscribers:
		return s == &r.control.gate
	}
	return false
}

// outside reports whether an event from outside could resolve the promise without executing code.
func (p *Promise) outside() bool {
	switch {
	case p.gather == nil:
		return p.op != nil
	case p.gather.stop == nil: // a Gather without stop needs all its parts
		return !slices.ContainsFunc(p.gather.parts, func(part *Promise) bool { return !part.done && !part.outside() })
	}
	return slices.ContainsFunc(p.gather.parts, func(part *Promise) bool { return !part.done && part.outside() })
}

// leaf calls f with each unresolved promise on which p depends and that is not a Gather.
func (p *Promise) leaf(f func(*Promise)) {
	switch {
	case p.done:
	case p.gather == nil:
		f(p)
	default:
		for _, part := range p.gather.parts {
			part.leaf(f)
		}
	}
}

// endsUnder reports whether the work that resolves p is canceled when the scope s ends.
func (p *Promise) endsUnder(s *Scope) bool {
	all := true
	p.leaf(func(p *Promise) {
		under := p.scope
		for under != nil && under != s && under.err == nil {
			under = under.within
		}
		all = all && under != nil
	})
	return all
}

// rescued reports whether the wait can end without an action of another branch.
func (w *awaits) rescued(r *Run) bool {
	if w.scope == nil || w.scope.err != nil {
		return false
	}
	for s := w.scope; s != nil; s = s.within {
		// If the end of the scope also cancels the work of the promise, the wait does not end with
		// the scope.
		if !s.due.IsZero() && (w.promise == nil || !w.promise.endsUnder(s)) {
			return true
		}
		if s == &r.root && w.selects && len(w.cases) == 0 {
			return true // the branch waits for a cancel
		}
	}
	return false
}

// deadlocked reports whether no branch can ever continue. There must be open branches, none of
// which waits for an event from outside.
func (r *Run) deadlocked() bool {
	c, a := &r.control, &r.asks
	switch {
	case r.queue.n > 0, r.err != nil, r.ended, r.dying:
		return false
	case c.paused, c.halted != nil, len(c.late) > 0:
		return false
	case len(a.handlers) > 0 && !a.closed && !r.windup.begun:
		return false // an ask may arrive, and its handler may cancel a scope
	}
	for n := r.branches.first; n != nil; n = n.next {
		if n.item.awaits.rescued(r) {
			return false
		}
	}
	if len(r.feed) > 0 && (!r.isCommand(&r.feed[0]) || r.breaks() && r.feed[0].Type != event.CancelRequested) {
		r.overlooked = true // other code has written the log
		return false
	}
	return true
}

// breakDeadlock breaks the first deadlock of the run, and ends the run at the second one.
func (r *Run) breakDeadlock() {
	if r.breaks() {
		r.release()
	} else {
		r.crashed(Ending{Type: event.RunFailed, Failure: r.deadlockFailure(r.knots())})
	}
}

// breaks reports whether a deadlock at this time would be the first one, which is broken.
func (r *Run) breaks() bool { return r.deadlock == nil && !r.windup.begun }

// release records the deadlock and ends the waits of the knots.
func (r *Run) release() {
	knots := r.knots()
	asked := event.Event{Type: event.CancelRequested, Failure: &event.Failure{Code: event.CodeDeadlock}}
	if len(r.feed) == 0 {
		asked.Failure = r.deadlockFailure(knots)
	}
	rec := r.command(&asked, nil)
	if rec == nil {
		return
	}
	r.deadlock = rec.Failure
	for _, b := range knots {
		b.waiter.release()
	}
	r.root.cancel(ErrDeadlock)
}

// deadlockFailure returns the stored form of the error of a deadlock.
func (r *Run) deadlockFailure(knots []*Branch) *event.Failure {
	if r.deadlock != nil {
		return r.deadlock
	}
	e := &DeadlockError{}
	add := func(b *Branch, knot bool) {
		if len(e.Waits) == maxWaits {
			e.More++
			return
		}
		w := BranchWait{Branch: b.path, For: b.waitsFor + b.waitsForKey, Position: r.where(b), Knot: knot}
		for _, to := range b.waitsOn() {
			w.Branches = append(w.Branches, to.path)
		}
		w.For = b.awaits.describe(w.For, w.Branches)
		e.Waits = append(e.Waits, w)
	}
	knot := map[*Branch]bool{}
	for _, b := range knots {
		knot[b] = true
		add(b, true)
	}
	for n := r.branches.first; n != nil; n = n.next {
		if !knot[n.item] {
			add(n.item, false)
		}
	}
	return e.stored()
}

// describe returns a description of the awaited object. branches are the paths of the awaited
// branches.
func (w *awaits) describe(what string, branches []string) string {
	switch n := len(branches); {
	case n == 1:
		return "branch " + branches[0]
	case n > 1:
		return "branches " + strings.Join(branches, ", ")
	case w.selects && len(w.cases) == 0:
		return "the end of a detached context that nothing ends"
	case w.promise != nil || w.selects:
		return what + ", which no branch of this run publishes"
	}
	return what
}

// waitsOn returns the open branches for which a blocked branch waits.
func (b *Branch) waitsOn() (all []*Branch) {
	seen := map[*Branch]bool{}
	on := func(p *Promise) {
		if m := p.maker; m != nil && m.run == b.run && !m.finished && !seen[m] {
			seen[m] = true
			all = append(all, m)
		}
	}
	if p := b.awaits.promise; p != nil {
		p.leaf(on)
	}
	for _, c := range b.awaits.cases {
		c.Promise.leaf(on)
	}
	if b.waitsFor == waitsForAnswers {
		for n := b.run.branches.first; n != nil; n = n.next {
			if n.item.answers {
				all = append(all, n.item)
			}
		}
	}
	return all
}

// knots returns the branches of all knots, oldest first. A knot is a set of branches that wait,
// directly or indirectly, only for each other. A branch that waits for no other branch is a knot by
// itself.
func (r *Run) knots() []*Branch {
	t := tarjan{at: map[*Branch]*visit{}}
	for n := r.branches.first; n != nil; n = n.next {
		if t.at[n.item] == nil {
			t.walk(n.item)
		}
	}
	var all []*Branch
	for n := r.branches.first; n != nil; n = n.next {
		if t.leaves[t.at[n.item].part] == 0 {
			all = append(all, n.item)
		}
	}
	return all
}

// tarjan finds the strongly connected components of the graph in which branches are nodes and waits
// are edges.
type tarjan struct {
	at     map[*Branch]*visit
	stack  []*Branch
	leaves []int // for each component, the number of its waits for branches outside of the component
}

type visit struct {
	index, low int
	part       int // number of the component; -1 if it was not determined
}

func (t *tarjan) walk(b *Branch) *visit {
	v := &visit{index: len(t.at), low: len(t.at), part: -1}
	t.at[b] = v
	bottom, on := len(t.stack), b.waitsOn()
	t.stack = append(t.stack, b)
	for _, to := range on {
		switch w := t.at[to]; {
		case w == nil:
			v.low = min(v.low, t.walk(to).low)
		case w.part < 0:
			v.low = min(v.low, w.index)
		}
	}
	if v.low < v.index {
		return v
	}
	part := len(t.leaves)
	t.leaves = append(t.leaves, 0)
	for _, member := range t.stack[bottom:] {
		t.at[member].part = part
	}
	for _, member := range t.stack[bottom:] {
		for _, to := range member.waitsOn() {
			if t.at[to].part != part {
				t.leaves[part]++
			}
		}
	}
	t.stack = t.stack[:bottom]
	return v
}
