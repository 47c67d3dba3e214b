package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestClaim_TakesRunsWithAndWithoutLimitsInTheirOrder proves that a claim grants all runs in their
// order, however many runs without limits lie between two runs with limits. A claim reads only a
// few runs at a time after it has found a run with limits.
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
				create(store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}) // all in one limiter queue
				key++
				create(store.Use{LimitID: store.LimitID{Name: "gpu", Key: fmt.Sprint(key)}, Weight: 1}) // each in its own limiter queue
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

// TestLimits_AnEventLooksAtAllLinesWithTheTurnOfTheSecondOne proves that the queue that may have
// its permits is admitted even if other limiter queues have the same position. Queues of different
// flows may have the same position.
func TestLimits_AnEventLooksAtAllLinesWithTheTurnOfTheSecondOne(t *testing.T) {
	use := func(names ...string) (uses []store.Use) {
		for _, name := range names {
			uses = append(uses, store.Use{LimitID: store.LimitID{Name: name}, Weight: 1})
		}
		return uses
	}
	for at := range 4 {
		t.Run(fmt.Sprintf("line %d", at), func(t *testing.T) {
			l := newLimitedRuns(t, 1, use("a", "b", "c", "d")...)
			for _, name := range []string{"a", "b", "c", "d"} {
				l.uses = use(name)
				l.create(1)
				l.claim(1, 1)
			}
			var counter string
			for _, key := range l.server.Keys(t.Context(), "*c").Val() {
				if l.server.Type(t.Context(), key).Val() == "string" {
					counter = key
				}
			}
			turn := must(l.server.Get(t.Context(), counter).Int())
			var want event.RunID
			for i, uses := range slices.Insert([][]store.Use{use("a", "b"), use("a", "c"), use("a", "d")}, at, use("a")) {
				l.server.Set(t.Context(), counter, turn, 0)
				l.uses = uses
				l.create(1)
				if i == at {
					want = l.created
				}
			}
			l.claim(4, 0)
			l.owned = l.owned[:1]
			l.finish() // ends the run that holds the permit of limit a
			l.owned = nil
			l.claim(1, 1)
			if got := l.owned[0].Run; got != want {
				t.Errorf("claimed %s, want %s, which uses a only", got, want)
			}
			l.sound()
		})
	}
}
