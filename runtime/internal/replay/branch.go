package replay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Branch is one coroutine of a run. Its methods are called from the code that
// it runs, and from nowhere else.
type Branch struct {
	run      *Run
	path     string
	code     func(*Branch)
	co       *coroutine // nil before the code begins and after it has ended
	opened   *Trace     // where the code was handed over
	ordinals ordinals
	rng      *rand.Rand
	chacha   *rand.ChaCha8 // the numbers of rng
	uuids    int           // asked for
	ignored  int           // operations under scopes that have ended, since it has last waited
	waiter   waiter
	// waitsFor and waitsForKey say what blocks it; empty: nothing.
	waitsFor, waitsForKey string
	awaits                awaits

	makes   *Promise         // what it resolves; nil: nothing
	answers bool             // a question
	taken   map[*Hook]*taken // what it has received last, from hooks that answer; nil: nothing
	failed  *event.Failure   // of an operation that returns no error: it ends the run

	place    node[Branch] // among the open branches
	runnable node[Branch] // among those that can go on
	finished bool
}

// MisuseError is the value of the panic that stops code which uses what belongs
// to another branch, or waits where it may not.
type MisuseError struct{ Text string }

// Error says what was wrong and what to do.
func (e *MisuseError) Error() string { return e.Text }

// Path returns the scope path of the branch, for example "fulfil/go#1".
func (b *Branch) Path() string { return b.path }

// Run returns the run of the branch.
func (b *Branch) Run() *Run { return b.run }

// enter is the first thing that every durable operation does: it ends code that
// is being unwound, and refuses calls from the wrong place.
func (b *Branch) enter() {
	r := b.run
	if !onCoroutine() {
		r.stop(b.path)
	}
	if r.stray.Load() != nil || r.current != b || r.dying || r.err != nil || r.pure != "" || b.failed != nil {
		b.refuse()
	}
}

func (b *Branch) refuse() {
	r := b.run
	if r.current == b && r.strayed() {
		b.co.exit()
	}
	switch {
	case r.current == nil && r.pure != "":
		panic(&MisuseError{"workflow: a durable operation was called inside of " + r.pure + ": it computes a verdict and may not wait"})
	case r.current == nil && r.dying:
		panic(&MisuseError{"workflow: a durable operation was called after its run had ended or was put aside"})
	case r.current == nil:
		panic(&MisuseError{"workflow: a durable operation was called from outside of the workflow's code, perhaps by that of another run"})
	case r.dying || r.err != nil || r.current.failed != nil:
		r.current.co.exit()
	case r.pure != "":
		panic(&MisuseError{fmt.Sprintf("workflow: a durable operation was called inside of %s: "+
			"its function computes a value and may not wait", r.pure)})
	default:
		panic(&MisuseError{fmt.Sprintf("workflow: branch %s uses the context of branch %s: "+
			"use the context that workflow.Go passes to the function", r.current.path, b.path)})
	}
}

// Fail ends the run, because an operation that returns no error has failed. It does
// not return: deferred calls run, and no recover stops it.
func (b *Branch) Fail(f *event.Failure) {
	b.enter()
	b.failed = f
	b.co.exit()
}

// suspend gives control back to the driver until the branch is resumed.
func (b *Branch) suspend() {
	b.ignored = 0
	b.co.suspend()
	for b.run.asking { // only where it is
		b.run.position = b.position()
		b.co.suspend()
	}
	if b.run.dying {
		b.co.exit()
	}
}

// Key returns the key of the next operation of this name: it depends on nothing
// but the branch and what the branch did before.
func (b *Branch) Key(name string) string {
	b.enter()
	return b.path + "/" + name + "#" + strconv.Itoa(b.ordinal(name))
}

// DeclaredKey returns the key of an operation that the user gave a key of its
// own. A repeated key gets an ordinal behind it.
func (b *Branch) DeclaredKey(name, key string) string {
	b.enter()
	name += "[" + key + "]"
	if n := b.ordinal(name); n > 1 {
		return b.path + "/" + name + "#" + strconv.Itoa(n)
	}
	return b.path + "/" + name
}

func (b *Branch) ordinal(name string) int { return b.ordinals.next(name) }

// ordinals counts how often a branch has used each name. The zero value is ready for
// use.
type ordinals struct {
	few  []ordinal      // the first names: most branches use no others
	more map[string]int // all other names
}

type ordinal struct {
	name string
	n    int
}

// fewNames is how many names are found faster in a list.
const fewNames = 8

// next counts a use of the name.
func (o *ordinals) next(name string) int {
	for i := range o.few {
		if u := &o.few[i]; u.name == name {
			u.n++
			return u.n
		}
	}
	if len(o.few) < fewNames {
		o.few = append(o.few, ordinal{name, 1})
		return 1
	}
	if o.more == nil {
		o.more = map[string]int{}
	}
	o.more[name]++
	return o.more[name]
}

// Open starts a branch that runs f, under a path that [Branch.Key] has made. Branches that
// are opened in one place share the trace of it.
func (b *Branch) Open(path string, at *Trace, f func(*Branch)) {
	b.enter()
	nb := b.run.open(path, f)
	nb.opened, nb.taken = at, maps.Clone(b.taken)
}

// Now returns the time of the event that the code reacts to.
func (b *Branch) Now() time.Time {
	b.enter()
	return b.run.now
}

// Until returns when it is d later than the event that the code reacts to. That was up
// to a millisecond later than Now says: who waits must not be woken so much early. It is
// not the same in a replay, which takes the recorded time. Code that sees the times of an older run waits from now on.
func (b *Branch) Until(d time.Duration) time.Time {
	b.enter()
	t := b.run.present()
	// What is due already must be so in a replay, too.
	if x := b.run.exact; d > 0 && x.After(t) && x.Sub(t) < time.Millisecond {
		t = x
	}
	return t.Add(d)
}

// present is when the code goes on, also while it sees the times of an older run.
func (r *Run) present() time.Time {
	if r.control.past {
		return r.latest
	}
	return r.now
}

// Replaying reports whether the code does nothing new: it repeats what the log
// holds already, also behind the last event that was fed, or it is being unwound.
func (b *Branch) Replaying() bool { return b.run.feed != nil || b.run.dying }

// LogLength returns how long the log is at this place, as code wants to know it.
func (b *Branch) LogLength() int {
	b.enter()
	return int(b.run.state.Seq - b.run.state.Uncounted)
}

// Spec returns what the run was created with.
func (b *Branch) Spec() *event.Spec { return b.run.state.Spec }
