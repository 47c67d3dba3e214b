package deploy

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// job is the input of a run.
type job struct {
	N    int           `json:"n"`
	Step time.Duration `json:"step"` // duration of each step
}

type stepFunc = func(context.Context, job) (int, error)

func declare(name string) shim.Step[stepFunc] {
	return shim.NewStep("deploy."+name, shim.Policy{}, func(f stepFunc) shim.Handler {
		return shim.Handle(func(ctx context.Context, j job) (int, error) { return f(ctx, j) })
	})
}

var (
	reserve = declare("reserve")
	check   = declare("check") // step that only the new code executes
	charge  = declare("charge")
	ship    = declare("ship")

	order = shim.NewWorkflow[job, int]("deploy.order", "job", shim.WorkflowPolicy{})
)

// build is a version of the code of a worker.
type build struct {
	changed bool // the code checks the order before it charges
	version bool // the code calls Version to decide whether to check
}

func (b build) register(r workflow.Registrar) {
	for _, s := range []shim.Step[stepFunc]{reserve, charge, ship} {
		s.Bind(r, work)
	}
	switch {
	case !b.changed:
		shim.BindWorkflow(r, order, old)
		return
	case b.version:
		shim.BindWorkflow(r, order, versioned)
	default:
		shim.BindWorkflow(r, order, changed)
	}
	check.Bind(r, work)
}

func old(ctx workflow.Context, j job) (int, error)     { return orderBy(ctx, j, never) }
func changed(ctx workflow.Context, j job) (int, error) { return orderBy(ctx, j, always) }
func versioned(ctx workflow.Context, j job) (int, error) {
	return orderBy(ctx, j, func(ctx workflow.Context) bool { return workflow.Version(ctx, "check", 1) >= 1 })
}

func never(workflow.Context) bool  { return false }
func always(workflow.Context) bool { return true }

// orderBy is the workflow. It executes steps and sleeps after each step. After a sleep, any worker
// may continue the run.
func orderBy(ctx workflow.Context, j job, checks func(workflow.Context) bool) (int, error) {
	steps := []shim.Step[stepFunc]{reserve, charge, ship}
	sum := 0
	for i, s := range steps {
		if i == 1 && checks(ctx) {
			if _, err := shim.Call[int](ctx, check, j); err != nil {
				return 0, err
			}
		}
		n, err := shim.Call[int](ctx, s, j)
		if err != nil {
			return 0, err
		}
		sum += n
		if err := workflow.Sleep(ctx, j.Step/2+time.Duration(j.N%7)*j.Step/10); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// work is a long step that observes the cancellation of its context and records its progress.
func work(ctx context.Context, j job) (int, error) {
	const parts = 4
	done, _ := step.LastHeartbeat[int](ctx)
	for ; done < parts; done++ {
		if err := harm.Rest(ctx, j.Step/parts); err != nil {
			return 0, err
		}
		if err := step.Heartbeat(ctx, done+1); err != nil {
			return 0, err
		}
	}
	return 1, nil
}
