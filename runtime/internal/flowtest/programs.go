package flowtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// LimitError is the error with which [Account] refuses a question.
type LimitError struct{ Limit int }

// Error returns a text that contains the limit.
func (e *LimitError) Error() string { return fmt.Sprintf("more than %d", e.Limit) }

// Accounts is a workflow that answers the question Add. For each accepted question it executes the
// step Slow.
var (
	Add      = workflow.NewAsk[int, int]("add") // the answer is the new sum
	Slow     = AStep[int, int]("slow", shim.Policy{Retry: Quick})
	Accounts = Flow[int, int]("accounts") // begins with its input and adds up to 100, until a number arrives
	Account  = As(Accounts, func(ctx workflow.Context, sum int) (int, error) {
		Add.Handle(ctx, func(n int) error {
			if sum+n > 100 {
				return &LimitError{100}
			}
			return nil
		}, func(ctx workflow.Context, n int) (int, error) {
			if _, err := Slow.Call(ctx, n); err != nil {
				return 0, err
			}
			sum += n
			return sum, nil
		})
		_, err := Numbers.Receive(ctx)
		return sum, err
	})
	Slowly = Slow.As(func(_ context.Context, n int) (int, error) { return n, nil })
)

// Inbox returns the number of items in the inbox of a run.
func (w *World) Inbox(run Follows) int {
	w.T.Helper()
	return len(w.load(store.Load{Run: run.ID(), Inbox: true, Limit: -1}).Inbox)
}

// The workflows and steps of tests that attack workers. [World.Recovered] and [World.Interrupt]
// start some of them.
var (
	AttackStep  = AStep[int, int]("attack", shim.Policy{Retry: Quick})
	AttackLong  = AStep[int, int]("attack.long", shim.Policy{Timeout: 10_000 * time.Hour})
	AttackSleep = Flow[int, int]("attack.sleep")
	AttackOnce  = Flow[int, int]("attack.once")
	AttackTopic = workflow.NewTopic[int]("attack")
)

// Doubles is a workflow that doubles its input and fails for negative numbers.
var (
	Doubles = Flow[int, int]("doubles")
	Double  = As(Doubles, func(_ workflow.Context, n int) (int, error) {
		if n < 0 {
			return 0, &NegativeError{N: n}
		}
		return 2 * n, nil
	})
)

// NegativeError is the error of [Double] for negative numbers.
type NegativeError struct{ N int }

// Error returns a text that contains the number.
func (e *NegativeError) Error() string { return fmt.Sprintf("%d is negative", e.N) }

// Trip is the input of [Trips]. A trip makes a number of bookings, each with a compensation. Things
// is this number, and End determines how the trip ends.
type Trip struct {
	Things int    `json:"things"`
	End    string `json:"end"`
}

// Trips is a workflow with compensations, and Book and Unbook are its steps. [Travel] is the code
// of the workflow, and [Office] binds the code of the steps.
var (
	Trips  = Flow[Trip, int]("trips")
	Book   = AStep[int, int]("book", shim.Policy{Retry: Quick})
	Unbook = AStep[int, int]("unbook", shim.Policy{Retry: Quick})
)

// Undoing returns the compensation for booking n.
func Undoing(n int) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		_, err := Unbook.Call(ctx, n)
		return err
	}
}

// Travel is the code of [Trips].
func Travel(ctx workflow.Context, t Trip) (int, error) {
	for n := range t.Things {
		if _, err := Book.Call(ctx, n); err != nil {
			return 0, err
		}
		withdraw := workflow.Compensate(ctx, Undoing(n))
		if t.End == "withdraw" && n == 1 {
			withdraw()
			withdraw()
		}
	}
	switch t.End {
	case "wait":
		return 0, workflow.Sleep(ctx, time.Hour)
	case "panic":
		panic("lost the tickets")
	case "continue":
		return 0, Trips.ContinueAsNew(ctx, Trip{End: "well"})
	case "well":
		return t.Things, nil
	}
	return 0, errors.New("no seat")
}

// Office binds the steps of [Trips]. The step Unbook records n in undone, unless fails returns an
// error for n.
func Office(undone *Seen[int], fails func(n int) error) []Binding {
	return []Binding{
		Book.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		Unbook.As(func(_ context.Context, n int) (int, error) {
			if fails != nil {
				if err := fails(n); err != nil {
					return 0, err
				}
			}
			undone.Add(n)
			return n, nil
		}),
	}
}

// Steps is a workflow that calls [Work1] n times.
var (
	Steps   = Flow[int, int]("steps")
	DoSteps = As(Steps, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := Work1.Call(ctx, i); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	DoWork1 = Work1.As(func(_ context.Context, n int) (int, error) { return n, nil })
)

// Seqs follows a run to its end and returns the sequence numbers of its events.
func (w *World) Seqs(run Follows, opts ...workflow.ReadOption) []uint64 {
	var all []uint64
	for e, err := range w.Client.Run(run.ID()).Events(w.Ctx, opts...) {
		if err != nil {
			w.T.Error(err)
		}
		all = append(all, e.Seq)
	}
	return all
}

// UpTo returns all numbers between from and to, inclusive.
func UpTo(from, to uint64) []uint64 {
	var all []uint64
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// Numbers is a topic, and Collects is a workflow that receives messages from it.
var (
	Numbers  = workflow.NewTopic[int]("numbers")
	Collects = Flow[int, []int]("collects") // the input is the number of messages that it receives
	Collect  = As(Collects, func(ctx workflow.Context, n int) ([]int, error) {
		var all []int
		for range n {
			v, err := Numbers.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	})
)

// Gpu is a step with its own queue, and Renders is a workflow that calls the step.
var (
	Gpu     = AStep[int, string]("gpu", shim.Policy{Queue: "gpu", Retry: Quick})
	Renders = Flow[int, string]("renders")
	Render  = As(Renders, Gpu.Call)
)

// Farm starts two workers: one serves only the queue of the workflow, and the other serves only the
// queue of [Gpu].
func Farm(w *World, code Binding, f func(context.Context, int) (string, error)) {
	w.T.Helper()
	none := Gpu.As(func(context.Context, int) (string, error) {
		w.T.Error("the step was executed on a worker that does not serve its queue")
		return "", nil
	})
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	w.Work(worker.Config{Queues: []string{"gpu"}}, Gpu.As(f))
}

// ErrBusy is an error that steps return to be retried.
var ErrBusy = errors.New("busy")

// Echo and Parker are workflows without steps. Echo returns its input.
var (
	Echo   = Flow[string, string]("echo")
	Runs   = As(Echo, func(_ workflow.Context, in string) (string, error) { return "<" + in + ">", nil })
	Parker = Flow[string, string]("parker") // waits for one message and returns the message
	Wake   = workflow.NewTopic[string]("wake")
	Parks  = As(Parker, func(ctx workflow.Context, _ string) (string, error) { return Wake.Receive(ctx) })
)

// Work1 is a step. Each test binds its own code to it.
var (
	Work1 = AStep[int, int]("work1", shim.Policy{Retry: Quick})
	One   = Flow[int, int]("one") // calls Work1 once
	Calls = As(One, Work1.Call)
)

// CloseSessions closes the sessions of all workers, as if their leases had expired.
func (w *World) CloseSessions() {
	w.T.Helper()
	Order(w.T, w.closeSessions(w.Ctx, ""))
}

// closeSessions closes the sessions whose IDs begin with prefix.
func (w *World) closeSessions(ctx context.Context, prefix string) (err error) {
	snap, err := w.inspect(ctx)
	if err != nil {
		return err
	}
	for id, l := range snap.Leases {
		if strings.HasPrefix(string(id), prefix) {
			err = errors.Join(err, w.Store.CloseSession(ctx, l.Partition, id))
		}
	}
	return err
}

// Films is a workflow that writes a number to [Tokens], calls [Gpu] and waits for a number.
var (
	Films = Flow[int, int]("films")
	Film  = As(Films, func(ctx workflow.Context, n int) (int, error) {
		Tokens.Write(ctx, 10)
		_, err := Gpu.Call(ctx, n)
		if err != nil {
			return 0, err
		}
		return Numbers.Receive(ctx)
	})
)

// TakesLong gives the test more time than [Patience].
func (w *World) TakesLong() {
	ctx, cancel := context.WithTimeout(w.T.Context(), 10*Patience)
	w.T.Cleanup(cancel)
	w.Ctx = ctx
}

// Tokens is the stream that most tests of streams use.
var Tokens = workflow.NewStream[int]("tokens")

// Chunk contains the fields of a chunk that tests compare.
type Chunk struct {
	Index   uint64
	Value   int
	Step    string
	Attempt int
}

// Chunks reads [Tokens] to the end, and fails the test on an error.
func (w *World) Chunks(of Follows, opts ...workflow.ReadOption) []Chunk {
	w.T.Helper()
	all, err := w.Read(of, opts...)
	if err != nil {
		w.T.Errorf("read stream of %s: %v", of.ID(), err)
	}
	return all
}

// Read reads [Tokens] to the end or to the first error.
func (w *World) Read(of Follows, opts ...workflow.ReadOption) (all []Chunk, err error) {
	for c, err := range Tokens.Read(w.Ctx, of, opts...) {
		if err != nil {
			return all, err
		}
		if c.Step != "" && c.Run != of.ID() {
			w.T.Errorf("chunk %d is of run %s, want %s", c.Index, c.Run, of.ID())
		}
		all = append(all, Chunk{c.Index, c.Value, c.Step, c.Attempt})
	}
	return all, nil
}

// Written returns chunks with the given values, as the code of a run writes them. The first chunk
// has the index from.
func Written(from int, values ...int) []Chunk {
	var all []Chunk
	for i, v := range values {
		all = append(all, Chunk{Index: uint64(from + i), Value: v})
	}
	return all
}

// By returns the chunks as if an attempt of a step had written them.
func By(step string, attempt int, chunks []Chunk) []Chunk {
	for i := range chunks {
		chunks[i].Step, chunks[i].Attempt = step, attempt
	}
	return chunks
}

// Same fails the test unless got equals want.
func Same(t *testing.T, what string, got, want []Chunk) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Writes writes values to [Tokens]. It must be called in a step.
func Writes(ctx context.Context, values ...int) error {
	for _, v := range values {
		if err := step.Write(ctx, Tokens, v); err != nil {
			return err
		}
	}
	return nil
}

// Streams is a workflow to which tests give code that writes to [Tokens].
var Streams = Flow[int, int]("streams")

// Holds is a workflow that opens a hook with its input as the token.
var (
	Holds = Flow[string, int]("holds") // takes one payload and returns it
	Hold  = As(Holds, func(ctx workflow.Context, own string) (int, error) {
		hook, err := Paid.Open(ctx, workflow.Token(own))
		if err != nil {
			return 0, err
		}
		return hook.Receive(ctx)
	})
)

// Opened waits until the run has opened a hook with a user-defined token.
func (w *World) Opened(run Follows) { w.Reach(run, event.ChildStarted, 1) }

// Climbs is a workflow that sets the value Level.
var (
	Level  = workflow.NewValue[int]("level")
	Climbs = Flow[int, int]("climbs") // sets Level to 1, 2, 3 and so on, one step with each message
	Climb  = As(Climbs, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := Numbers.Receive(ctx); err != nil {
				return i, err
			}
			Level.Set(ctx, i+1)
		}
		return n, nil
	})
)

// Send sends a number to a run.
func (w *World) Send(to workflow.Target, n int) {
	w.T.Helper()
	Order(w.T, Numbers.Send(w.Ctx, to, n))
}

// Noting binds [Work1] and records its arguments in got.
func Noting(got *Seen[int]) Binding {
	return Work1.As(func(_ context.Context, n int) (int, error) { got.Add(n); return n, nil })
}

// Gates provides the code of a step that completes when the test opens the gate of its argument.
type Gates struct{ Open [8]chan struct{} }

// NewGates returns gates that are all closed.
func NewGates() *Gates {
	g := &Gates{}
	for i := range g.Open {
		g.Open[i] = make(chan struct{})
	}
	return g
}

// Pass waits until gate n is open. It returns n, or an error if n is odd.
func (g *Gates) Pass(ctx context.Context, n int) (int, error) {
	select {
	case <-g.Open[n]:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if n%2 == 1 {
		return 0, fmt.Errorf("odd %d: %w", n, ErrFatal)
	}
	return n, nil
}

// ErrFatal is the cause of the errors of [Gates.Pass].
var ErrFatal = errors.New("fatal")

// Settled waits until n steps of a run have ended.
func (w *World) Settled(run Follows, n int) {
	w.T.Helper()
	w.reach(run, n, event.StepCompleted, event.StepFailed)
}
