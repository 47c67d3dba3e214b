package replay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Branch is one coroutine of a run. Its methods must be called only from the code that it runs.
type Branch struct {
	run      *Run
	path     string
	code     func(*Branch)
	co       *coroutine // nil before the code begins and after it has ended
	opened   *Trace     // position in the code that opened the branch
	ordinals ordinals
	rng      *rand.Rand
	chacha   *rand.ChaCha8 // source of rng
	uuids    int           // number of generated UUIDs
	ignored  int           // number of operations under ended scopes since the branch last waited
	waiter   waiter
	// waitsFor and waitsForKey describe the wait that blocks the branch. Both are empty if it is
	// not blocked.
	waitsFor, waitsForKey string
	awaits                awaits

	makes   *Promise         // the promise that the branch resolves; nil if none
	answers bool             // whether the branch answers an ask
	taken   map[*Hook]*taken // the last payload from each hook with answers; nil if none
	origin  *origin          // of the last message, payload or question that the branch has received; nil if it has no attributes
	failed  *event.Failure   // failure of an operation that returns no error; the failure ends the run

	place    node[Branch] // node in the list of open branches
	runnable node[Branch] // node in the list of runnable branches
	finished bool
}

// Path returns the scope path of the branch, for example "fulfil/go#1".
func (b *Branch) Path() string { return b.path }

// Run returns the run of the branch.
func (b *Branch) Run() *Run { return b.run }

// Spec returns the spec with which the run was created.
func (b *Branch) Spec() *event.Spec { return b.run.state.Spec }

// Replaying reports whether the code only repeats recorded operations or is being unwound. It
// remains true until the replay ends, even after the last recorded event.
func (b *Branch) Replaying() bool { return b.run.feed != nil || b.run.dying }

// enter must be called first by every durable operation. It ends code that is being unwound and
// rejects calls from outside of the running branch.
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
		panic(&MisuseError{"workflow: a durable operation was called inside of " + r.pure + ": it computes a verdict and must not wait"})
	case r.current == nil && r.dying:
		panic(&MisuseError{"workflow: a durable operation was called after its run had ended or was set aside"})
	case r.current == nil:
		panic(&MisuseError{"workflow: a durable operation was called from outside of the workflow's code, perhaps from the code of another run"})
	case r.dying || r.err != nil || r.current.failed != nil:
		r.current.co.exit()
	case r.pure != "":
		panic(&MisuseError{fmt.Sprintf("workflow: a durable operation was called inside of %s: "+
			"its function computes a value and must not wait", r.pure)})
	default:
		panic(&MisuseError{fmt.Sprintf("workflow: branch %s uses the context of branch %s: "+
			"use the context that workflow.Go passes to the function", r.current.path, b.path)})
	}
}

// MisuseError is the panic value that stops code which uses objects of another branch, or which
// waits where waiting is not permitted.
type MisuseError struct{ Text string }

// Error describes the misuse and the correct use.
func (e *MisuseError) Error() string { return e.Text }

// Gate is called first by each durable operation that counts as a step in debug mode. In debug mode
// it waits for a RunStepped event, which admits one operation. The caller must check its conditions
// after Gate, because they may change during the wait.
func (b *Branch) Gate(s *Scope) {
	b.enter()
	b.heed(s)
	c := &b.run.control
	for c.gated && c.allowed == 0 {
		b.wait("a command to do one step", "", &c.gate)
	}
	if c.gated {
		c.allowed--
	}
}

// mostIgnored is how many operations a branch may begin under ended scopes without waiting in
// between. Each operation returns the error of its scope at once. So code that ignores the error
// would never return control, and no other event could take effect, not even a termination.
const mostIgnored = 100_000

// heed counts an operation under an ended scope. If the code ignores the end of the scope for too
// long, heed fails the run.
//
// The log records the failure, so that a replay ends at the same operation. If the log continues at
// this position, the code of another build began fewer operations, and this code continues as well.
func (b *Branch) heed(s *Scope) {
	if s == nil || s.err == nil {
		return
	}
	if b.ignored++; b.ignored < mostIgnored {
		return
	}
	r := b.run
	asked := event.Event{Type: event.CancelRequested, Key: b.path, Failure: &event.Failure{Code: event.CodeEndIgnored}}
	if len(r.feed) > 0 {
		if rec := &r.feed[0]; !r.isCommand(rec) || !sameOperation(rec, &asked) {
			return
		}
	} else {
		asked.Failure.Message = fmt.Sprintf("branch %s has begun %d operations since its context ended (%v) without waiting: "+
			"return once an operation returns the error of the context, or use workflow.Detached for work that must be done nevertheless", b.path, b.ignored, s.Err())
	}
	rec := r.command(&asked, nil)
	b.Fail(rec.Failure)
}

// Fail ends the run because an operation that returns no error has failed. It does not return:
// deferred calls run, and recover cannot stop the unwinding.
func (b *Branch) Fail(f *event.Failure) {
	b.enter()
	b.failed = f
	b.co.exit()
}

// Block ends the branch and blocks the run with err. It does not return: deferred calls run, and
// recover cannot stop the unwinding.
func (b *Branch) Block(err error) {
	b.enter()
	b.run.err = err
	b.run.abortOnError()
}

// Key returns the key of the next operation with this name. The key depends only on the branch and
// its earlier operations.
func (b *Branch) Key(name string) string {
	b.enter()
	return b.numbered(name, b.ordinals.next(name))
}

// numbered returns the key of the n-th operation with this name.
func (b *Branch) numbered(name string, n int) string {
	var digits [20]byte
	return b.path + "/" + name + "#" + string(strconv.AppendInt(digits[:0], int64(n), 10))
}

// DeclaredKey returns the key of an operation for which the user has chosen a key. A repeated key
// gets an ordinal as a suffix.
func (b *Branch) DeclaredKey(name, key string) string {
	b.enter()
	name += "[" + key + "]"
	if n := b.ordinals.next(name); n > 1 {
		return b.numbered(name, n)
	}
	return b.path + "/" + name
}

// ordinals counts how often a branch has used each name. The zero value is ready for use.
type ordinals struct {
	few  []ordinal      // the first names; most branches use no others
	more map[string]int // names that are not in few
}

type ordinal struct {
	name string
	n    int
}

// fewNames is the number of names up to which a linear search is faster than a map.
const fewNames = 8

// next counts a use of the name and returns the number of uses.
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

// Open starts a branch that runs f. The path comes from [Branch.Key]. Branches that are opened at
// the same position share its trace.
func (b *Branch) Open(path string, at *Trace, f func(*Branch)) {
	b.enter()
	nb := b.run.open(path, f)
	nb.opened, nb.taken, nb.origin = at, maps.Clone(b.taken), b.origin
}

// Now returns the time of the event to which the code reacts.
func (b *Branch) Now() time.Time {
	b.enter()
	return b.run.now
}

// Until returns the time d after the event to which the code reacts. It uses the exact time of a
// new event, which may be up to a millisecond later than Now returns, so that a wait does not end
// too early. A replay uses the recorded time, so its result differs. If the code sees the times of
// an older run, Until returns a time after the current time.
func (b *Branch) Until(d time.Duration) time.Time {
	b.enter()
	t := b.run.present()
	// If the wait is due at once, it must be due at once in a replay as well, so d must be
	// positive.
	if x := b.run.exact; d > 0 && x.After(t) && x.Sub(t) < time.Millisecond {
		t = x
	}
	return t.Add(d)
}

// present returns the current time of the code. It differs from Now while the code sees the times
// of an older run.
func (r *Run) present() time.Time {
	if r.control.past {
		return r.latest
	}
	return r.now
}

// LogLength returns the length of the log at this position, without the events that do not count
// toward the length.
func (b *Branch) LogLength() int {
	b.enter()
	return int(b.run.state.Seq - b.run.state.Uncounted)
}
