package flows

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The declared capacities of Small and Big.
const (
	smallAtOnce = 3
	bigAtOnce   = 5
	eachAtOnce  = 2
)

// Tenants is the number of keys of [Each].
const Tenants = 4

// Small, Big and Each limit the steps of [Crowd], [Holder] and [Hoarder]. Each has a key for each
// tenant, and only some of the steps use it.
var (
	Small = limit.New("chaos.small", limit.Config{AtOnce: smallAtOnce})
	Big   = limit.New("chaos.big", limit.Config{AtOnce: bigAtOnce})
	Each  = limit.NewKeyed[int]("chaos.each", limit.Config{AtOnce: eachAtOnce})
)

// Capacity is a limit with the range of capacities that the experiment sets. No step uses more than
// Least permits.
type Capacity struct {
	Limit    limit.Limit
	Declared int
	Least    int
	Most     int
}

// Capacities contains the limits without keys and the ranges of their capacities.
var Capacities = []Capacity{
	{Small, smallAtOnce, 1, 4},
	{Big, bigAtOnce, 2, 7},
}

// Keys returns the partitions of Each, and the capacity of each partition.
func Keys() (keys []limit.Limit, atOnce int) {
	for n := range Tenants {
		keys = append(keys, Each.For(n))
	}
	return keys, eachAtOnce
}

// crowd executes steps that use the limits in every combination, and executes two of them at a
// time.
//
//flow:workflow
func crowd(ctx workflow.Context, job Job) (Result, error) {
	return steps(ctx, job, 2, func(ctx workflow.Context, i int) (int, error) {
		switch job.draw(5, "uses", i) {
		case 0:
			return TakeSmall(ctx, job, i)
		case 1:
			return TakeBig(ctx, job, i)
		case 2:
			return TakeSmallAndBig(ctx, job, i)
		case 3:
			return TakeBigAndSmall(ctx, job, i)
		default:
			return Add(ctx, job, i)
		}
	})
}

// holder holds one limit from its first claim to its end. Its steps wait for the other limit. Steps
// of other runs wait for both.
//
//flow:workflow uses=Small
func holder(ctx workflow.Context, job Job) (Result, error) {
	return steps(ctx, job, 1, func(ctx workflow.Context, i int) (int, error) {
		switch n := job.draw(4, "uses", i); {
		case n == 0:
			return TakeSmall(ctx, job, i) // The run already holds this limit.
		case n == 1 && job.Nested:
			return TakeBig(ctx, job, i)
		case n == 2 && job.Nested:
			return TakeBigAndSmall(ctx, job, i)
		default:
			return Add(ctx, job, i)
		}
	})
}

// hoarder holds both limits from its first claim to its end, so that its steps do not wait.
//
//flow:workflow uses=Big:2,Small
func hoarder(ctx workflow.Context, job Job) (Result, error) {
	return steps(ctx, job, 1, func(ctx workflow.Context, i int) (int, error) {
		if job.draw(2, "uses", i) == 0 {
			return TakeSmallAndBig(ctx, job, i)
		}
		return Add(ctx, job, i)
	})
}

// steps executes the steps of a job, atOnce of them in parallel, and returns the sum of their
// results.
func steps(ctx workflow.Context, job Job, atOnce int, step func(workflow.Context, int) (int, error)) (Result, error) {
	items := make([]int, job.Steps)
	for i := range items {
		items[i] = i
	}
	parts, err := workflow.Map(ctx, items, step, workflow.Limit(atOnce))
	var r Result
	for _, n := range parts {
		r.Sum += n
	}
	return r, err
}

// takeSmall is like add, but uses Small.
//
//flow:step uses=Small retries=1000 backoff=constant(5ms)
func (h *Hands) takeSmall(ctx context.Context, job Job, n int) (int, error) {
	return h.take(ctx, job, n)
}

// takeBig is like add, but uses Big with weight two and the key of a tenant.
//
//flow:step uses=Big:2,Each(job.Tenant) retries=1000 backoff=constant(5ms)
func (h *Hands) takeBig(ctx context.Context, job Job, n int) (int, error) {
	return h.take(ctx, job, n)
}

// takeSmallAndBig is like add, but uses Small, Big and the key of a tenant.
//
//flow:step uses=Small,Big,Each(job.Tenant) retries=1000 backoff=constant(5ms)
func (h *Hands) takeSmallAndBig(ctx context.Context, job Job, n int) (int, error) {
	return h.take(ctx, job, n)
}

// takeBigAndSmall is like takeSmallAndBig, but names the limits in the other order.
//
//flow:step uses=Big:2,Small retries=1000 backoff=constant(5ms)
func (h *Hands) takeBigAndSmall(ctx context.Context, job Job, n int) (int, error) {
	return h.take(ctx, job, n)
}

// take takes long enough for concurrent executions to overlap. One in ten takes so long that a
// fault of its worker often interrupts it.
func (h *Hands) take(ctx context.Context, job Job, n int) (int, error) {
	return execute(ctx, h, func() (int, error) {
		takes := 3 + job.draw(10, "rest", n)
		if job.draw(10, "long", n) == 0 {
			takes = job.Work / 8
		}
		if err := harm.Rest(ctx, time.Duration(takes)*time.Millisecond); err != nil {
			return 0, err
		}
		return job.try(ctx, n)
	})
}
