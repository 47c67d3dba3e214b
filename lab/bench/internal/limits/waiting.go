package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// listBudget is the budget for listing limits, in milliseconds.
var listBudget = atMost(100, "ms")

// waiting measures a store in which many runs of one tenant are waiting.
func waiting(ctx context.Context, s *session) ([]Figure, error) {
	free, err := crowded(ctx, s, flows.Free)
	if err != nil {
		return nil, fmt.Errorf("without limits: %w", err)
	}
	limited, err := crowded(ctx, s, flows.Keyed)
	if err != nil {
		return nil, err
	}
	claims := []Number{{"a claim of what waits", limited.claim, "ms"}, {"without limits", free.claim, "ms"}}
	figures := []Figure{
		{What: "claims until the first run of another tenant comes", Value: float64(limited.claims), Unit: "claims", budget: atMost(2, "claims"), Beside: claims},
		{What: fmt.Sprintf("bytes of a run that waits, of %d, more than without limits", s.waiting), Value: limited.bytes - free.bytes, Unit: "B",
			Beside: []Number{{"it takes", limited.bytes, "B"}, {"without limits", free.bytes, "B"}}},
		{What: "Limits.List with its counts", Value: limited.list, Unit: "ms", budget: listBudget,
			Beside: []Number{{"held", float64(limited.held), ""}, {"waiting", float64(limited.waits), ""}, {"without limits", free.list, "ms"}}},
	}
	if s.kind() == "redis" {
		figures[1].budget = atMost(300, "B")
	}
	many, err := manyParts(ctx, s)
	return append(figures, many...), err
}

// crowdedness contains the measurements of a store with many waiting runs.
type crowdedness struct {
	bytes       float64 // bytes per run
	claims      int     // number of claims until the run of another tenant was claimed
	claim, list float64 // duration of a claim and of a listing, in milliseconds
	held, waits int
}

// crowded starts the runs of a tenant and then a run of another tenant, and measures claims and
// listings.
func crowded(ctx context.Context, s *session, flow workflow.Definition[string, string]) (_ *crowdedness, err error) {
	p, err := s.newHome(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	see := &crowdedness{}
	if see.bytes, err = fill(ctx, s, p, flow); err != nil {
		return nil, err
	}
	c, ctx, err := s.newCrew(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.leave()) }()
	session, err := newClaimer(ctx, c.store, flow.Name())
	if err != nil {
		return nil, err
	}
	other, err := flow.Start(ctx, c.client, "mouse")
	if err != nil {
		return nil, err
	}
	took, err := see.search(ctx, session, other.ID(), flow.Name() == flows.Keyed.Name())
	if err != nil {
		return nil, err
	}
	see.claim = float64(took) / float64(time.Millisecond)
	err = see.look(ctx, c.client)
	return see, err
}

// fill starts the runs of a tenant and returns the bytes per run. On a server, it closes its
// connections before it measures, because their buffers are not part of the runs.
func fill(ctx context.Context, s *session, p *place, flow workflow.Definition[string, string]) (bytes float64, err error) {
	before, err := p.size(ctx)
	if err != nil {
		return 0, err
	}
	c, filling, err := s.newCrew(ctx, p)
	if err != nil {
		return 0, err
	}
	s.sayf("waiting: %d runs of %s are started", s.waiting, flow.Name())
	err = ops.New(c.client).Limits().Set(filling, flows.Tenant.All(), limit.Config{AtOnce: flows.TenantAtOnce})
	if err == nil {
		err = start(filling, c, flow, s.waiting, func(int) (string, []workflow.StartOption) { return "elephant", nil })
	}
	if err := errors.Join(err, c.leave()); err != nil {
		return 0, err
	}
	after, err := p.size(ctx)
	return float64(after-before) / float64(s.waiting), err
}

// search claims runs until the run of the other tenant is claimed. If all is false, it claims only
// once, because runs have no order by tenant.
func (see *crowdedness) search(ctx context.Context, c *claimer, run workflow.RunID, all bool) (first time.Duration, err error) {
	for see.claims < 10 {
		begun := time.Now()
		runs, err := c.claim(ctx, claimMost)
		if see.claims++; see.claims == 1 {
			first = time.Since(begun)
		}
		if err != nil || !all {
			return first, err
		}
		for _, r := range runs {
			if r.Run == run {
				return first, nil
			}
		}
	}
	return first, fmt.Errorf("the run of another tenant was in none of %d claims", see.claims)
}

// look measures a listing of limits.
func (see *crowdedness) look(ctx context.Context, client *workflow.Client) error {
	var times []float64
	for range 5 {
		begun := time.Now()
		all, err := ops.New(client).Limits().List(ctx)
		if err != nil {
			return err
		}
		times = append(times, float64(time.Since(begun))/float64(time.Millisecond))
		see.held, see.waits = 0, 0
		for _, l := range all {
			see.held, see.waits = see.held+l.Held, see.waits+l.Waits
		}
	}
	see.list = median(times)
	return nil
}

// manyParts measures the listing of a limit with many keys. One run is waiting for each key.
func manyParts(ctx context.Context, s *session) (_ []Figure, err error) {
	c, ctx, err := s.settle(ctx, s.newHome)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	session, err := newClaimer(ctx, c.store, flows.Keyed.Name())
	if err != nil {
		return nil, err
	}
	if err := session.create(ctx, s.keys, order{uses: func(i int) limit.Limit { return flows.Tenant.For(key(i)) }}); err != nil {
		return nil, err
	}
	see := &crowdedness{}
	if err := see.look(ctx, c.client); err != nil {
		return nil, err
	}
	if see.waits != s.keys {
		return nil, fmt.Errorf("the list counts %d runs that wait, there are %d", see.waits, s.keys)
	}
	limiter, ok := store.As[store.Limiter](c.store)
	if !ok {
		return nil, store.ErrNoLimits
	}
	begun := time.Now()
	page, err := limiter.Limits(ctx, session.partition, store.LimitID{}, 100)
	took := float64(time.Since(begun)) / float64(time.Millisecond)
	return []Figure{{What: fmt.Sprintf("Limits.List of %d keys", s.keys), Value: see.list, Unit: "ms",
		Beside: []Number{{fmt.Sprintf("a page of %d", len(page)), took, "ms"}}}}, err
}
