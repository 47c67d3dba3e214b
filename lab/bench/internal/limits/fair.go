package limits

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fair compares claims with and without fairness keys. It also measures claims while many runs of
// one key are waiting.
func fair(ctx context.Context, s *session) ([]Figure, error) {
	without, many := &variant{name: "without fair keys"}, &variant{name: "fair keys"}
	servers, err := compareClaims(ctx, s, "fair", []*variant{without, many}, map[*variant]order{
		many: {fair: func(i int) string { return key(i % s.keys) }},
	})
	if err != nil {
		return nil, err
	}
	claims, took, err := turnOf(ctx, s)
	return []Figure{
		{What: fmt.Sprintf("claims, %d fair keys, of those without", s.keys), Value: many.percent(without), Unit: "%", budget: keyBudget,
			Beside: beside("claim", servers, many, without)},
		{What: fmt.Sprintf("claims until the first run of another fair key comes, after %d of one", s.waiting), Value: float64(claims), Unit: "claims", budget: atMost(2, "claims"),
			Beside: []Number{{"the first of these claims", float64(took) / float64(time.Millisecond), "ms"}}},
	}, err
}

// turnOf creates many waiting runs of one fairness key, and then a run of another key. It returns
// the number of claims until that run was claimed, and the duration of the first claim.
func turnOf(ctx context.Context, s *session) (claims int, first time.Duration, err error) {
	p, err := s.newHome(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	st, err := p.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	c, err := newClaimer(ctx, st, "bench.fair")
	if err != nil {
		return 0, 0, err
	}
	s.sayf("fair: %d runs of one key are created", s.waiting)
	if err := c.create(ctx, s.waiting, order{fair: func(int) string { return "elephant" }}); err != nil {
		return 0, 0, err
	}
	if err := c.create(ctx, 1, order{fair: func(int) string { return "mouse" }}); err != nil {
		return 0, 0, err
	}
	see := &crowdedness{}
	first, err = see.search(ctx, c, c.created, true)
	return see.claims, first, err
}
