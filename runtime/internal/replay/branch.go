package replay

import (
	"fmt"
	"hash/fnv"
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
	co       *coroutine
	ordinals map[string]int
	blocked  string // what it waits for
	opened   string // where its code was handed over, for reports
	queued   bool
	finished bool
	rng      *rand.Rand
}

// Panic is what the code of a branch panicked with.
type Panic struct {
	Branch string // path
	Opened string
	Value  any
	Stack  []byte
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
	switch {
	case r.current == b && !r.dying && r.err == nil && r.pure == "":
	case r.dying || r.err != nil:
		b.co.exit()
	case r.current == nil:
		panic(&MisuseError{"workflow: a durable operation was called from outside of the workflow's code, " +
			"perhaps from a goroutine that the code started: use workflow.Go instead of go"})
	case r.current != b:
		panic(&MisuseError{fmt.Sprintf("workflow: branch %s uses the context of branch %s: "+
			"use the context that workflow.Go passes to the function", r.current.path, b.path)})
	default:
		panic(&MisuseError{fmt.Sprintf("workflow: a durable operation was called inside of workflow.Record (%s): "+
			"the function of Record computes a value and may not wait", r.pure)})
	}
}

// suspend gives control back to the driver until the branch is resumed.
func (b *Branch) suspend() {
	b.co.suspend()
	if b.run.dying {
		b.co.exit()
	}
}

// Key returns the key of the next operation of this name: it depends on nothing
// but the branch and what the branch did before.
func (b *Branch) Key(name string) string {
	return b.path + "/" + name + "#" + strconv.Itoa(b.ordinal(name))
}

// DeclaredKey returns the key of an operation that the user gave a key of its
// own. A repeated key gets an ordinal behind it.
func (b *Branch) DeclaredKey(name, key string) string {
	name += "[" + key + "]"
	if n := b.ordinal(name); n > 1 {
		return b.path + "/" + name + "#" + strconv.Itoa(n)
	}
	return b.path + "/" + name
}

func (b *Branch) ordinal(name string) int {
	if b.ordinals == nil {
		b.ordinals = map[string]int{}
	}
	b.ordinals[name]++
	return b.ordinals[name]
}

// Open starts a branch that runs f, under a path that [Branch.Key] has made.
func (b *Branch) Open(path string, f func(*Branch)) {
	b.enter()
	b.run.open(path, f)
}

// Now returns the time of the event that the code reacts to.
func (b *Branch) Now() time.Time {
	b.enter()
	return b.run.now
}

// Rand returns the random numbers of the branch. They are seeded from the run
// and the branch, and are the same in every replay.
func (b *Branch) Rand() *rand.Rand {
	b.enter()
	if b.rng == nil {
		h := fnv.New128a()
		_, _ = h.Write([]byte(b.run.id))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(b.path))
		var seed [32]byte
		copy(seed[:], h.Sum(nil))
		_, _ = h.Write([]byte("2"))
		copy(seed[16:], h.Sum(nil))
		b.rng = rand.New(rand.NewChaCha8(seed))
	}
	return b.rng
}

// Replaying reports whether the code repeats what the log holds already.
func (b *Branch) Replaying() bool { return len(b.run.feed) > 0 }

// LogLength returns the number of events that the log has at this place.
func (b *Branch) LogLength() int {
	b.enter()
	return int(b.run.fold.Seq)
}

// Spec returns what the run was created with.
func (b *Branch) Spec() *event.Spec { return b.run.fold.Spec }
