package runloop_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A program is a workflow whose result depends only on its input, whatever happens to its attempts,
// commits and workers.
type program struct {
	workflow string
	bind     binding
	other    binding // other code of the same workflow, which deviates from its logs; nil if there is none
	input    int
	result   string
	messages int  // number of messages that the run receives
	chunks   int  // number of chunks that the run writes to its stream
	hooks    bool // whether the attempts of its steps may open hooks
	answers  bool // whether payloads are sent to these hooks
	asks     int  // number of asks that are sent to the run; odd ones are refused
	floods   bool // whether a further message arrives whenever the run tries to end
	uses     []event.Use
	whole    bool // whether the run keeps its permits to its end
}

var (
	manyRetries = workflow.RetryPolicy{Attempts: 1000, Initial: 5 * time.Millisecond, Max: 40 * time.Millisecond}
	quickStep   = newStep("quick", shim.Policy{Retry: manyRetries, Timeout: time.Minute})
	shortStep   = newStep("short", shim.Policy{Retry: manyRetries, Timeout: 30 * time.Millisecond})
	onceStep    = newStep("once", shim.Policy{Retry: manyRetries, NonIdempotent: true})
	otherStep   = newStep("other", shim.Policy{Retry: manyRetries})
	steps       = []step{quickStep, shortStep, onceStep, otherStep}
	topic       = workflow.NewTopic[int]("topic")
	stream      = workflow.NewStream[int]("stream")
	question    = workflow.NewAsk[int, int]("question")
	childFlow   = newFlow("child")
)

// binding registers code.
type binding func(workflow.Registrar)

func newFlow(name string) workflow.Definition[int, int] {
	return shim.NewWorkflow[int, int]("test."+name, "in", shim.WorkflowPolicy{})
}

func as(d workflow.Definition[int, int], f func(workflow.Context, int) (int, error)) binding {
	return func(r workflow.Registrar) { shim.BindWorkflow(r, d, f) }
}

// step is a step with one argument.
type step struct {
	shim.Step[func(context.Context, int) (int, error)]
}

type stepArgs struct {
	In int `json:"in"`
}

func newStep(name string, p shim.Policy) step {
	return step{shim.NewStep("test."+name, p, func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a stepArgs) (int, error) { return f(ctx, a.In) })
	})}
}

func (s step) Call(ctx workflow.Context, n int) (int, error) {
	return shim.Call[int](ctx, s.Step, stepArgs{n})
}

// notCalled is the code of all steps: the tests decide how an attempt ends.
func notCalled(context.Context, int) (int, error) { panic("the reducer has called the code of a step") }

// bound returns a program of the given workflow code.
func bound(name string, input int, result string, code func(workflow.Context, int) (int, error)) program {
	d := newFlow(name)
	return program{workflow: d.Name(), bind: as(d, code), input: input, result: result}
}

// receiving returns the program with messages.
func (p program) receiving(n int) program {
	p.messages = n
	return p
}

var programs = []program{
	bound("chain", 4, "6", func(ctx workflow.Context, n int) (sum int, err error) {
		for i := range n {
			got, err := quickStep.Call(ctx, i)
			if err != nil {
				return 0, err
			}
			sum += got
		}
		return sum, nil
	}),
	bound("fan", 6, "15", fan),
	bound("once", 3, "3", func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			_, _ = onceStep.Call(ctx, i) // an interrupted attempt is a failure
		}
		got, err := quickStep.Call(ctx, n)
		return got, err
	}),
	bound("mixed", 3, "1236", mixed).receiving(3),
	bound("scope", 3, "7", func(ctx workflow.Context, n int) (int, error) {
		for i := range n { // the time limit ends some of the attempts
			limited, cancel := workflow.WithTimeout(ctx, 20*time.Millisecond)
			_, _ = workflow.Map(limited, make([]int, 2), quickStep.Call)
			cancel()
			if _, err := shortStep.Call(ctx, i); err != nil {
				return 0, err
			}
		}
		return 7, nil
	}),
	bound("parent", 2, "21", func(ctx workflow.Context, n int) (sum int, err error) {
		first := childFlow.StartChild(ctx, 10)
		got, err := childFlow.Child(ctx, 11)
		if err != nil {
			return 0, err
		}
		_, _ = quickStep.Call(ctx, n)
		other, err := first.Get(ctx)
		return got + other, err
	}),
	hooked("hooked", true),
	hooked("unanswered", false),
	deviating(),
	breaking(),
	asked(),
	flooded(),
	limited("limited", false),
	limited("limited-whole", true),
}

func fan(ctx workflow.Context, n int) (sum int, err error) {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	all, err := workflow.Map(ctx, items, quickStep.Call, workflow.Limit(4))
	for _, got := range all {
		sum += got
	}
	return sum, err
}

// mixed receives messages in order, beside a step and a sleep.
func mixed(ctx workflow.Context, n int) (sum int, err error) {
	for range n {
		m, err := topic.Receive(ctx)
		if err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, 15*time.Millisecond); err != nil {
			return 0, err
		}
		got, err := shortStep.Call(ctx, m)
		if err != nil {
			return 0, err
		}
		sum = 10*sum + got
	}
	all, err := fan(ctx, 4)
	return 10*sum + all, err
}

// hooked is a program whose attempts may open hooks. If answers is true, they may be finished from
// outside; otherwise a pending attempt times out.
func hooked(name string, answers bool) program {
	p := bound(name, 3, "3", func(ctx workflow.Context, n int) (sum int, err error) {
		limited, cancel := workflow.WithTimeout(ctx, 50*time.Millisecond)
		_, _ = workflow.Map(limited, make([]int, 2), quickStep.Call)
		cancel()
		all, err := workflow.Map(ctx, make([]int, n), shortStep.Call)
		return len(all), err
	})
	p.hooks, p.answers = true, answers
	return p
}

// asked is a program that answers questions while it receives messages.
func asked() program {
	p := bound("asked", 3, "6", func(ctx workflow.Context, n int) (int, error) {
		question.Handle(ctx, func(q int) error {
			if q%2 == 1 {
				return errors.New("the question is odd")
			}
			return nil
		}, quickStep.Call)
		for range n {
			if _, err := topic.Receive(ctx); err != nil {
				return 0, err
			}
		}
		workflow.CloseAsks(ctx)
		return fan(ctx, 4)
	})
	p.messages, p.asks = 3, 8
	return p
}

// flooded is a program that can end only because the store refuses further messages.
func flooded() program {
	p := bound("flooded", 2, "12", func(ctx workflow.Context, n int) (sum int, err error) {
		for range n {
			m, err := topic.Receive(ctx)
			if err != nil {
				return 0, err
			}
			sum = 10*sum + m
		}
		_, err = quickStep.Call(ctx, sum)
		return sum, err
	})
	p.messages, p.floods = 2, true
	return p
}

// limited is a program that uses a limit, and cleans up when it is canceled.
func limited(name string, whole bool) program {
	p := bound(name, 4, "6", func(ctx workflow.Context, n int) (int, error) {
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := quickStep.Call(ctx, n)
			return err
		})
		if _, err := topic.Receive(ctx); err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, 15*time.Millisecond); err != nil {
			return 0, err
		}
		return fan(ctx, n)
	})
	p.messages, p.whole, p.uses = 1, whole, []event.Use{{Limit: "crowd", Weight: 1}}
	return p
}

// burst is a program that receives and writes more than fits into one commit.
func burst() program {
	const n = 2500
	p := bound("burst", n, strconv.Itoa(n*(n+1)/2), func(ctx workflow.Context, n int) (sum int, err error) {
		for range n {
			m, err := topic.Receive(ctx)
			if err != nil {
				return 0, err
			}
			stream.Write(ctx, m)
			sum += m
		}
		return quickStep.Call(ctx, sum)
	})
	p.messages, p.chunks = n, n
	return p
}

// deviating is a program of which there are two versions.
func deviating() program {
	version := func(then step) func(workflow.Context, int) (int, error) {
		return func(ctx workflow.Context, n int) (int, error) {
			all, err := workflow.Map(ctx, make([]int, n), quickStep.Call)
			if err != nil {
				return len(all), err
			}
			return then.Call(ctx, 5)
		}
	}
	d := newFlow("deviating")
	return program{workflow: d.Name(), input: 2, result: "5", bind: as(d, version(quickStep)), other: as(d, version(otherStep))}
}

// breaking is a program of which one version ceases to match its log when it has received a message,
// while attempts of its steps are in progress.
func breaking() program {
	version := func(latest int) func(workflow.Context, int) (int, error) {
		return func(ctx workflow.Context, n int) (int, error) {
			workflow.Version(ctx, "change", 1)
			all := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return fan(ctx, n) })
			if _, err := topic.Receive(ctx); err != nil {
				return 0, err
			}
			workflow.Version(ctx, "change", latest, workflow.AtLeast(latest)) // a run that follows version 1 is blocked if latest is 2
			return all.Get(ctx)
		}
	}
	d := newFlow("breaking")
	return program{workflow: d.Name(), input: 4, result: "6", messages: 1, bind: as(d, version(1)), other: as(d, version(2))}
}

// registrar fills the registry of a worker.
type registrar struct{ r *workflow.Registry }

func (r registrar) Registry() *workflow.Registry { return r.r }

// code returns a registry with a version of a program. All of its hook tokens are derived.
func (p *program) code(other bool) *flow.Registry {
	r := registrar{&workflow.Registry{}}
	for _, s := range steps {
		s.Bind(r, notCalled)
	}
	if other && p.other != nil {
		p.other(r)
	} else {
		p.bind(r)
	}
	code := (*flow.Registry)(r.r)
	code.Observe(flow.Observer{Secret: func(_ event.RunID, key string) string { return tokenOf(key) }})
	return code
}

// tokenOf returns the random part of a hook's token.
func tokenOf(key string) string {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	return fmt.Sprintf("%022d", h.Sum64())
}

// client implements the parts of the engine's client that code needs.
type client struct{ flow.Engine }

type noStore struct{ store.Store }

func (noStore) Partitions() int { return 1 }

func (*client) Store() store.Store                    { return noStore{} }
func (*client) Logger() *slog.Logger                  { return slog.New(slog.DiscardHandler) }
func (*client) Limits() *flow.Limits                  { return &flow.Limits{Max: 1 << 20, Warn: 1 << 20} }
func (*client) CheckPayload(_, _ string, _ int) error { return nil }
