package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A claim looks at few runs at a time once it has found one with limits: it must neither pass
// one by nor come to the end too early, however many lie between two of them.
func TestClaim_TakesRunsWithAndWithoutLimitsInTheirOrder(t *testing.T) {
	for _, most := range []int{1, 2, 5, 23, 100} {
		t.Run(fmt.Sprintf("%d at a time", most), func(t *testing.T) {
			l := newLimitedRuns(t, 100, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1})
			var want []event.RunID
			create := func(uses ...store.Use) {
				l.uses = uses
				l.create(1)
				want = append(want, l.created)
			}
			key := 0
			for _, between := range []int{0, 1, 0, 2, 3, 4, 5, 6, 22, 70} {
				create(store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}) // of one line
				key++
				create(store.Use{LimitID: store.LimitID{Name: "gpu", Key: fmt.Sprint(key)}, Weight: 1}) // of a line of its own
				for range between {
					create()
				}
			}
			var got []event.RunID
			for len(got) < len(want) {
				claimed := must(l.st.Claim(t.Context(), store.Claim{Session: l.session, Token: event.NewToken(), Routes: []store.Route{l.route}, Max: most})).Runs
				if n := min(most, len(want)-len(got)); len(claimed) != n {
					t.Fatalf("claimed %d runs, want %d", len(claimed), n)
				}
				for _, r := range claimed {
					got = append(got, r.Run)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("claimed %v, want %v", got, want)
			}
		})
	}
}
