package permits

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// StatesPage is the number of limits per request. A store may read all limits of a partition for
// each page.
const StatesPage = 5000

// States returns the states of the limits in several partitions, sorted by name and key. A spread
// limit has its configuration in each partition. Its returned state contains the totals of held and
// waiting weights over all partitions.
func States(ctx context.Context, limiter store.Limiter, partitions []int) ([]store.LimitState, error) {
	merged := map[store.LimitID]store.LimitState{}
	for _, p := range partitions {
		var after store.LimitID
		for {
			page, err := limiter.Limits(ctx, p, after, StatesPage)
			if err != nil {
				return nil, fmt.Errorf("list limits: %w", err)
			}
			for _, s := range page {
				if was, ok := merged[s.LimitID]; ok {
					s.Held, s.Waits = s.Held+was.Held, s.Waits+was.Waits
				}
				merged[s.LimitID] = s
			}
			if len(page) < StatesPage {
				break
			}
			after = page[len(page)-1].LimitID
		}
	}
	sorted := slices.Collect(maps.Values(merged))
	slices.SortFunc(sorted, func(a, b store.LimitState) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return sorted, nil
}
