// Package flows contains the workflows with which limits are measured, and similar workflows
// without limits for comparison. Their code is generated in the same way as the code of any user.
//
//flow:package name=limits
package flows

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

// TenantAtOnce is the maximum number of active runs of a tenant.
const TenantAtOnce = 100

var (
	// Tenant has a single partition for all keys.
	Tenant = limit.NewKeyed[string]("bench.tenant", limit.Config{AtOnce: TenantAtOnce})
	// Customer has a partition for each key.
	Customer = limit.NewKeyed[string]("bench.customer", limit.Config{AtOnce: 1, Spread: true})
	// Ample has no keys and is never full.
	Ample = limit.New("bench.ample", limit.Config{AtOnce: 1 << 30})
	// Hundred is a rate of 100 per second.
	Hundred = limit.New("bench.hundred", limit.Config{Rate: 100})
	// Thousand is a rate of 1,000 per second.
	Thousand = limit.New("bench.thousand", limit.Config{Rate: 1000})
	// Small is the smaller one of two pools.
	Small = limit.New("bench.small", limit.Config{AtOnce: 3})
	// Big is the larger one of two pools.
	Big = limit.New("bench.big", limit.Config{AtOnce: 5})
	// One allows one attempt at a time.
	One = limit.New("bench.one", limit.Config{AtOnce: 1})
)

// free uses no limit.
//
//flow:workflow
func free(_ workflow.Context, key string) (string, error) { return key, nil }

// wide uses a limit without keys.
//
//flow:workflow uses=Ample
func wide(_ workflow.Context, key string) (string, error) { return key, nil }

// keyed uses a key of a limit that has a single partition.
//
//flow:workflow uses=Tenant(key)
func keyed(_ workflow.Context, key string) (string, error) { return key, nil }

// spread uses a key of a limit that has a partition for each key.
//
//flow:workflow uses=Customer(key)
func spread(_ workflow.Context, key string) (string, error) { return key, nil }

// Kind selects the step that crowd calls.
type Kind string

// The kinds of steps.
const (
	AtHundred  Kind = "hundred"
	AtThousand Kind = "thousand"
	InBoth     Kind = "both" // the step uses both pools
	InMix      Kind = "mix"  // the steps alternately use both pools, the small pool and the big pool
	InTurn     Kind = "turn"
	Aside      Kind = "aside" // the step uses no limit, but has its own run like a step with limits
	InPlace    Kind = "in place"
)

// crowd calls a step many times in parallel.
//
//flow:workflow
func crowd(ctx workflow.Context, kind Kind, calls int, nap time.Duration) (int, error) {
	numbers := make([]int, calls)
	for i := range numbers {
		numbers[i] = i
	}
	done, err := workflow.Map(ctx, numbers, func(ctx workflow.Context, n int) (int, error) { return one(ctx, kind, n, nap) })
	return len(done), err
}

// one calls a step of the given kind.
func one(ctx workflow.Context, kind Kind, n int, nap time.Duration) (int, error) {
	switch {
	case kind == AtHundred:
		return Hundredth(ctx, n)
	case kind == AtThousand:
		return Thousandth(ctx, n)
	case kind == InBoth && n%2 == 0, kind == InMix && n%4 == 0:
		return SmallBig(ctx, n, nap)
	case kind == InBoth, kind == InMix && n%4 == 2:
		return BigSmall(ctx, n, nap)
	case kind == InMix && n%4 == 1:
		return OnlySmall(ctx, n, nap)
	case kind == InMix:
		return OnlyBig(ctx, n, nap)
	case kind == InTurn:
		return Next(ctx, n)
	case kind == Aside:
		return Apart(ctx, n)
	case kind == InPlace:
		return Here(ctx, n, nap)
	}
	return 0, fmt.Errorf("there is no kind %q of steps", kind)
}

// chime is started for each tick of a schedule and notifies the probe.
//
//flow:workflow
func chime(ctx workflow.Context, name string) (string, error) {
	due, ticked := workflow.Tick(ctx)
	if !ticked {
		return "", fmt.Errorf("%s was started by no tick", name)
	}
	return name, Struck(ctx, name, due)
}

// delayed is started for a due time and notifies the probe.
//
//flow:workflow
func delayed(ctx workflow.Context, name string, due time.Time) (string, error) {
	return name, Struck(ctx, name, due)
}

// Probe receives notifications from the steps.
type Probe struct {
	// Attempt is called at the beginning of an attempt. The returned function is called at its end.
	Attempt func(weight Weight) (end func())
	// Struck is called when a run that was due has begun. name identifies the run, and due is its
	// due time.
	Struck func(name string, due time.Time)
}

// Weight is the number of permits that an attempt holds of each pool.
type Weight struct{ Small, Big int }

// during simulates an attempt that takes the duration nap.
func (p *Probe) during(w Weight, nap time.Duration) {
	defer p.Attempt(w)()
	if nap > 0 {
		time.Sleep(nap)
	}
}

// hundredth is limited by the rate Hundred.
//
//flow:step uses=Hundred
func (p *Probe) hundredth(_ context.Context, n int) (int, error) {
	p.during(Weight{}, 0)
	return n, nil
}

// thousandth is limited by the rate Thousand.
//
//flow:step uses=Thousand
func (p *Probe) thousandth(_ context.Context, n int) (int, error) {
	p.during(Weight{}, 0)
	return n, nil
}

// smallBig uses both pools.
//
//flow:step uses=Small,Big
func (p *Probe) smallBig(_ context.Context, n int, nap time.Duration) (int, error) {
	p.during(Weight{1, 1}, nap)
	return n, nil
}

// bigSmall uses both pools in the other order.
//
//flow:step uses=Big,Small
func (p *Probe) bigSmall(_ context.Context, n int, nap time.Duration) (int, error) {
	p.during(Weight{1, 1}, nap)
	return n, nil
}

// onlySmall uses the small pool.
//
//flow:step uses=Small
func (p *Probe) onlySmall(_ context.Context, n int, nap time.Duration) (int, error) {
	p.during(Weight{1, 0}, nap)
	return n, nil
}

// onlyBig uses the big pool.
//
//flow:step uses=Big
func (p *Probe) onlyBig(_ context.Context, n int, nap time.Duration) (int, error) {
	p.during(Weight{0, 1}, nap)
	return n, nil
}

// next uses the limit One, so that it begins when the previous attempt has ended.
//
//flow:step uses=One
func (p *Probe) next(_ context.Context, n int) (int, error) {
	p.during(Weight{}, 0)
	return n, nil
}

// apart uses no limit, but is executed by its own run.
//
//flow:step queue=aside
func (p *Probe) apart(_ context.Context, n int) (int, error) {
	p.during(Weight{}, 0)
	return n, nil
}

// here is executed by the calling run.
//
//flow:step
func (p *Probe) here(_ context.Context, n int, nap time.Duration) (int, error) {
	p.during(Weight{}, nap)
	return n, nil
}

// struck notifies the probe that a run that was due has begun.
//
//flow:step
func (p *Probe) struck(_ context.Context, name string, due time.Time) error {
	p.Struck(name, due)
	return nil
}
