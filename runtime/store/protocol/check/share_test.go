package check

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// tenant is a fairness key and the places of its waiting runs.
type tenant struct {
	weight int
	pass   int64
	waits  []int64
	served int
	at     int // index in the heap
	since  int // number of grants when its first run arrived; -1 if no run waits
}

// tenants is a heap of the keys with waiting runs. The key with the lowest first place is at the
// root, because claims examine it first.
type tenants []*tenant

func (t tenants) Len() int           { return len(t) }
func (t tenants) Less(i, j int) bool { return t[i].waits[0] < t[j].waits[0] }
func (t tenants) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].at, t[j].at = i, j
}

func (t *tenants) Push(x any) {
	x.(*tenant).at = len(*t)
	*t = append(*t, x.(*tenant))
}

func (t *tenants) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// market is a flow of the kernel and its waiting keys. enter and serve are the functions of the
// kernel, unless a bug replaces one.
type market struct {
	fairKey protocol.FairKey
	came    int64
	waiting tenants

	enter func(f *protocol.FairKey, came, pass int64, weight int) (place, next int64)
	serve func(f *protocol.FairKey, place int64)
}

func (m *market) come(t *tenant, n, grants int) {
	for range n {
		m.came++
		place, next := m.enter(&m.fairKey, m.came, t.pass, t.weight)
		m.came = max(m.came, place)
		if t.waits, t.pass = append(t.waits, place), next; len(t.waits) == 1 {
			t.since = grants
			heap.Push(&m.waiting, t)
		}
	}
}

func (m *market) grant() *tenant {
	t := m.waiting[0]
	m.serve(&m.fairKey, t.waits[0])
	t.waits = t.waits[1:]
	t.served++
	if len(t.waits) == 0 {
		heap.Remove(&m.waiting, 0)
	} else {
		heap.Fix(&m.waiting, 0)
	}
	return t
}

// shares is the result of a million grants to ten thousand keys.
type shares struct {
	wait   float64 // the longest wait of a key's first run, in rounds of all waiting keys
	spread float64 // the largest difference between the weighted services of two keys that always wait
	back   float64 // the service of a key that repeatedly arrives, divided by the service of a key that always waits
}

func sell(m *market) (s shares) {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([]*tenant, 10_000)
	for i := range keys {
		keys[i] = &tenant{weight: 1, since: -1}
		if i < 10 {
			keys[i].weight = i%3 + 1
		}
	}
	m.come(keys[0], 1_000_000, 0)
	for _, t := range keys[1:10] {
		m.come(t, 250_000, 0)
	}
	visitor := keys[10]
	m.come(visitor, 1, 0)
	for g := range 1_000_000 {
		if r.IntN(20) == 0 { // one of the small keys gets a few runs
			m.come(keys[11+r.IntN(len(keys)-11)], 1+r.IntN(3), g)
		}
		round := 0.0
		for _, t := range keys[:10] {
			round += float64(t.weight)
		}
		round += float64(len(m.waiting) - 10)
		t := m.grant()
		if t.since >= 0 {
			s.wait, t.since = max(s.wait, float64(g-t.since)/round), -1
		}
		if t == visitor {
			m.come(visitor, 1, g)
		}
		if g%1000 == 0 {
			for _, a := range keys[:10] {
				for _, b := range keys[:10] {
					s.spread = max(s.spread, float64(a.served)/float64(a.weight)-float64(b.served)/float64(b.weight))
				}
			}
		}
	}
	s.back = float64(visitor.served) / float64(keys[3].served)
	return s
}

func (s shares) fair() bool { return s.wait <= 2 && s.spread <= 1 && s.back < 1.01 && s.back > 0.98 }

// TestShares_DifferByOneRunAtMost proves that the service of keys differs by at most one run of the
// lowest weight, and that no key waits longer than for the rounds in progress. One key has a
// million waiting runs, nine always wait, one arrives repeatedly, and the others of ten thousand
// arrive occasionally.
func TestShares_DifferByOneRunAtMost(t *testing.T) {
	t.Parallel()
	good := market{enter: (*protocol.FairKey).Enter, serve: (*protocol.FairKey).Serve}
	m := good
	got := sell(&m)
	t.Logf("wait %.2f rounds, spread %.2f, who comes back %.3f", got.wait, got.spread, got.back)
	if !got.fair() {
		t.Errorf("got %+v", got)
	}
	for name, bug := range map[string]market{
		"a pass is forgotten": {serve: good.serve, enter: func(f *protocol.FairKey, came, _ int64, weight int) (int64, int64) {
			return f.Enter(came, 0, weight)
		}},
		"all weights are the same": {serve: good.serve, enter: func(f *protocol.FairKey, came, pass int64, _ int) (int64, int64) {
			return f.Enter(came, pass, 1)
		}},
		"the present pass stands still": {enter: good.enter, serve: func(f *protocol.FairKey, _ int64) { f.Waits-- }},
		"who comes begins at the end": {serve: good.serve, enter: func(_ *protocol.FairKey, came, _ int64, _ int) (int64, int64) {
			return came, came
		}},
	} {
		if got := sell(&bug); got.fair() {
			t.Errorf("%s: got %+v, which is fair", name, got)
		}
	}
}

// TestShares_TenThousandKeysTakeTurns proves that ten thousand keys with waiting runs are served
// round by round.
func TestShares_TenThousandKeysTakeTurns(t *testing.T) {
	t.Parallel()
	m := market{enter: (*protocol.FairKey).Enter, serve: (*protocol.FairKey).Serve}
	keys := make([]*tenant, 10_000)
	for i := range keys {
		keys[i] = &tenant{weight: 1 + i%3}
		m.come(keys[i], 20*(1+i%3), 0)
	}
	for g := range 10 * 20_000 {
		m.grant()
		if g%7919 > 0 {
			continue
		}
		low, high := keys[0], keys[0]
		for _, k := range keys {
			if k.served*low.weight < low.served*k.weight {
				low = k
			}
			if k.served*high.weight > high.served*k.weight {
				high = k
			}
		}
		if d := float64(high.served)/float64(high.weight) - float64(low.served)/float64(low.weight); d > 1 {
			t.Fatalf("after %d grants: service by weight differs by %.2f", g, d)
		}
	}
}
