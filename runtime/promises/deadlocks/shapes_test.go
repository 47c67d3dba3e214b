package deadlocks_test

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

var (
	ring = flowtest.Flow[int, string]("deadlocks.ring")
	echo = flowtest.AStep[string, string]("deadlocks.echo", shim.Policy{})
	tell = workflow.NewTopic[string]("deadlocks.tell")
	stop = workflow.NewAsk[string, string]("deadlocks.stop")
)

type code func(ctx workflow.Context, n int) (string, error)

type future = *workflow.Future[string]

func steps() []flowtest.Binding {
	return []flowtest.Binding{echo.As(func(_ context.Context, s string) (string, error) { return s, nil })}
}

// foreign is a future that no branch of the run under test has created.
var foreign future

// shape is a program that can never continue (dead), the waits that its DeadlockError must report,
// and a similar program that completes (alive).
type shape struct {
	dead  code
	waits []workflow.BranchWait // Position is the text of a comment in this file
	alive code
}

var shapes = map[string]shape{
	"futures in a ring": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			var a, b, c future
			a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return b.Get(ctx) }) // wait a
			b = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return c.Get(ctx) }) // wait b
			c = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return a.Get(ctx) }) // wait c
			return a.Get(ctx)                                                                      // wait main
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branch ring/go#2", Branches: []string{"ring/go#2"}, Position: "wait a", Knot: true},
			{Branch: "ring/go#2", For: "branch ring/go#3", Branches: []string{"ring/go#3"}, Position: "wait b", Knot: true},
			{Branch: "ring/go#3", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait c", Knot: true},
			{Branch: "ring", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait main"},
		},
		// One of the branches waits with a timeout.
		alive: func(ctx workflow.Context, _ int) (string, error) {
			var a, b future
			a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) {
				ctx, cancel := workflow.WithTimeout(ctx, 1)
				defer cancel()
				if _, err := b.Get(ctx); !errors.Is(err, workflow.ErrTimeout) {
					return "", err
				}
				return "alive", nil
			})
			b = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return a.Get(ctx) })
			return b.Get(ctx)
		},
	},
	"a branch that waits for itself": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			var self future
			self = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return self.Get(ctx) }) // wait self
			return self.Get(ctx)                                                                         // wait for self
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait self", Knot: true},
			{Branch: "ring", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait for self"},
		},
		// The branch checks whether its own future has ended, but does not wait for it.
		alive: func(ctx workflow.Context, _ int) (string, error) {
			var self future
			self = workflow.Go(ctx, func(ctx workflow.Context) (string, error) {
				if self.Done() {
					return "", errors.New("it has ended")
				}
				return echo.Call(ctx, "alive")
			})
			return self.Get(ctx)
		},
	},
	"a future that nobody makes": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			return foreign.Get(ctx) // wait nobody
		},
		waits: []workflow.BranchWait{
			{Branch: "ring", For: "branch holder/go#1, which no branch of this run publishes", Position: "wait nobody", Knot: true},
		},
		// The future is created after another branch has begun to wait for it.
		alive: func(ctx workflow.Context, _ int) (string, error) {
			var late future
			early := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return late.Get(ctx) })
			late = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return echo.Call(ctx, "alive") })
			return early.Get(ctx)
		},
	},
	"a select over dead futures": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			var a, b future
			choose := func(ctx workflow.Context) (string, error) {
				_, err := workflow.Select(ctx, a, b) // wait select
				return "", err
			}
			a, b = workflow.Go(ctx, choose), workflow.Go(ctx, choose)
			return workflow.Any(ctx, a, b) // wait any
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branches ring/go#1, ring/go#2", Branches: []string{"ring/go#1", "ring/go#2"}, Position: "wait select", Knot: true},
			{Branch: "ring/go#2", For: "branches ring/go#1, ring/go#2", Branches: []string{"ring/go#1", "ring/go#2"}, Position: "wait select", Knot: true},
			{Branch: "ring", For: "branches ring/go#1, ring/go#2", Branches: []string{"ring/go#1", "ring/go#2"}, Position: "wait any"},
		},
		alive: func(ctx workflow.Context, _ int) (string, error) {
			var a, b future
			choose := func(ctx workflow.Context) (string, error) {
				_, err := workflow.Select(ctx, a, b, workflow.After(1))
				return "alive", err
			}
			a, b = workflow.Go(ctx, choose), workflow.Go(ctx, choose)
			return workflow.Any(ctx, a, b)
		},
	},
	"a ring through Map and a helper": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			var all future
			all = workflow.Go(ctx, func(ctx workflow.Context) (string, error) {
				_, err := workflow.Map(ctx, []string{"a", "b"}, func(ctx workflow.Context, _ string) (string, error) { // wait map
					return together(ctx, all)
				})
				return "", err
			})
			return all.Get(ctx) // wait all
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branch ring/go#1/map#1.1", Branches: []string{"ring/go#1/map#1.1"}, Position: "wait map", Knot: true},
			{Branch: "ring/go#1/map#1.1", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait helper", Knot: true},
			{Branch: "ring", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait all"},
			{Branch: "ring/go#1/map#1.2", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait helper"},
		},
		alive: func(ctx workflow.Context, _ int) (string, error) {
			one := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return echo.Call(ctx, "alive") })
			all, err := workflow.Map(ctx, []string{"a", "b"}, func(ctx workflow.Context, _ string) (string, error) { return together(ctx, one) })
			if err != nil {
				return "", err
			}
			return all[0], nil
		},
	},
	"a graph that waits for its own node": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New()
			var whole future
			graph.AddNode(g, "node", func(ctx workflow.Context) (string, error) { return whole.Get(ctx) }) // wait node
			whole = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return "", g.Run(ctx) }) // wait graph
			return whole.Get(ctx)                                                                          // wait whole
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branch ring/go#1/graph#1.node", Branches: []string{"ring/go#1/graph#1.node"}, Position: "wait graph", Knot: true},
			{Branch: "ring/go#1/graph#1.node", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait node", Knot: true},
			{Branch: "ring", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait whole"},
		},
		alive: func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New()
			other := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return echo.Call(ctx, "alive") })
			node := graph.AddNode(g, "node", func(ctx workflow.Context) (string, error) { return other.Get(ctx) })
			if err := g.Run(ctx); err != nil {
				return "", err
			}
			return node.Value(), nil
		},
	},
	"a detached context that nothing ends": {
		dead: func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Select(workflow.Detached(ctx)) // wait detached
			return "", err
		},
		waits: []workflow.BranchWait{
			{Branch: "ring", For: "the end of a detached context that nothing ends", Position: "wait detached", Knot: true},
		},
		alive: func(ctx workflow.Context, _ int) (string, error) {
			ctx, cancel := workflow.WithTimeout(workflow.Detached(ctx), 1)
			defer cancel()
			if _, err := workflow.Select(ctx); !errors.Is(err, workflow.ErrTimeout) {
				return "", err
			}
			return "alive", nil
		},
	},
	"a run whose time is limited": {
		// The end of the context cannot resolve the deadlock: it would reach both branches at once,
		// and each would still wait for the other.
		dead: func(ctx workflow.Context, _ int) (string, error) {
			ctx, cancel := workflow.WithTimeout(ctx, 1<<50)
			defer cancel()
			var a, b future
			a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return b.Get(ctx) }) // wait limited a
			b = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return a.Get(ctx) }) // wait limited b
			return a.Get(ctx)                                                                      // wait limited
		},
		waits: []workflow.BranchWait{
			{Branch: "ring/go#1", For: "branch ring/go#2", Branches: []string{"ring/go#2"}, Position: "wait limited a", Knot: true},
			{Branch: "ring/go#2", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait limited b", Knot: true},
			{Branch: "ring", For: "branch ring/go#1", Branches: []string{"ring/go#1"}, Position: "wait limited"},
		},
		alive: func(ctx workflow.Context, _ int) (string, error) {
			var a, b future
			a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return b.Get(ctx) })
			b = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return a.Get(ctx) })
			short, cancel := workflow.WithTimeout(ctx, 1)
			defer cancel()
			if _, err := workflow.All(short, a, b); !errors.Is(err, workflow.ErrTimeout) {
				return "", err
			}
			return "alive", nil
		},
	},
}

// together waits for a future with workflow.All, in a function of its own.
func together(ctx workflow.Context, f future) (string, error) {
	all, err := workflow.All(ctx, f) // wait helper
	if err != nil {
		return "", err
	}
	return all[0], nil
}
