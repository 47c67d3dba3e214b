package refs

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMap_BehavesLikeAMap compares a Map with a map of Go after random operations.
func TestMap_BehavesLikeAMap(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var m Map[uint64]
		model := map[uint64]*uint64{}
		for range 200 {
			switch ref := rng.Uint64N(6); {
			case rng.IntN(3) == 0:
				m.Delete(ref)
				delete(model, ref)
			case model[ref] == nil:
				v := rng.Uint64()
				m.Add(ref, &v)
				model[ref] = &v
			}
			for ref := range uint64(6) {
				if got := m.Get(ref); got != model[ref] {
					t.Fatalf("seed %d: value of %d is %v, want %v", seed, ref, got, model[ref])
				}
			}
			var got, want []uint64
			for v := range m.All {
				got = append(got, *v)
			}
			for v := range maps.Values(model) {
				want = append(want, *v)
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" || m.Len() != len(model) {
				t.Fatalf("seed %d: %d values, want %d (-want +got):\n%s", seed, m.Len(), len(model), diff)
			}
		}
	}
}

// TestAllocs_OfFewValues proves that a Map with few values takes no memory of its own.
func TestAllocs_OfFewValues(t *testing.T) {
	var m Map[int]
	one, two := 1, 2
	if got := testing.AllocsPerRun(100, func() {
		m.Add(7, &one)
		m.Add(8, &two)
		m.Delete(7)
		m.Delete(8)
	}); got > 0 {
		t.Errorf("two values take %v allocations, want 0", got)
	}
	if m.few != [few]entry[int]{} {
		t.Errorf("an empty map holds %v", m.few)
	}
}
