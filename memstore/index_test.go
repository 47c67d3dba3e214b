package memstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// positionOf returns a position that increases with n. Three successive positions have the same
// millisecond, and the order of their IDs differs from the order of n.
func positionOf(n int) position {
	return position{created: int64(n / 3), id: event.RunID(fmt.Sprintf("run %d of %05d", n%3, 99999-n/3))}
}

func TestIndex_IsASortedSetInShortChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, known := &index{}, map[int]*run{}
		add := func(n int) {
			if known[n] == nil {
				p := positionOf(n)
				known[n] = &run{id: p.id, created: p.created}
				x.add(known[n])
			}
		}
		remove := func(n int) {
			if r := known[n]; r != nil {
				x.remove(r)
				delete(known, n)
			}
		}
		// Each operation adds or removes a range of neighboring runs, which fills or empties
		// chunks.
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			do, from := add, rapid.IntRange(0, 2000).Draw(t, "from")
			if rapid.Bool().Draw(t, "remove") {
				do = remove
			}
			stride := rapid.SampledFrom([]int{1, -1, 7}).Draw(t, "stride")
			for n := range rapid.IntRange(1, 3*chunkSize).Draw(t, "length") {
				do(from + 3000 + stride*n)
			}
			checkIndex(t, x, known)
		}
		cursor := rapid.IntRange(0, 9000).Draw(t, "cursor")
		var want []position
		for n := range known {
			if n < cursor {
				want = append(want, positionOf(n))
			}
		}
		slices.SortFunc(want, func(a, b position) int { return b.compare(a) })
		if diff := cmp.Diff(want, collect(x, positionOf(cursor)), cmp.AllowUnexported(position{})); diff != "" {
			t.Fatalf("runs before %d (-want +got)\n%s", cursor, diff)
		}
	})
}

func collect(x *index, before position) []position {
	var found []position
	for r := range x.before(before) {
		found = append(found, r.position())
	}
	return found
}

func checkIndex(t *rapid.T, x *index, known map[int]*run) {
	got := collect(x, position{})
	if len(got) != len(known) {
		t.Fatalf("runs: got %d, want %d", len(got), len(known))
	}
	for i := 1; i < len(got); i++ {
		if got[i-1].compare(got[i]) <= 0 {
			t.Fatalf("run %v stands before run %v", got[i-1], got[i])
		}
	}
	for i, c := range x.chunks {
		if len(c) == 0 || len(c) > chunkSize {
			t.Fatalf("chunk %d has %d runs, want 1 to %d", i, len(c), chunkSize)
		}
		if i > 0 && len(c)+len(x.chunks[i-1]) <= chunkSize/2 {
			t.Fatalf("chunks %d and %d have %d runs together: they should be one", i-1, i, len(c)+len(x.chunks[i-1]))
		}
	}
}
