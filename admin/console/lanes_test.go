package console

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// rowsOf returns the rows of a tree in which all nodes are expanded.
func rowsOf(n *node, depth int) []string {
	all := []string{fmt.Sprintf("%s%s %q at %s: %d operations, %d go on, %d failed, from %d at %d to %d", strings.Repeat("  ", depth), n.label, n.which(), n.at(), n.size, n.open, n.bad, n.first, n.begin, n.end)}
	for _, kid := range n.settled() {
		all = append(all, rowsOf(kid, depth+1)...)
	}
	return all
}

// chance returns a log in which operations begin, progress and end in random order.
func chance(r *rand.Rand, events int) []admin.Event {
	log := []admin.Event{{Type: "run_created", Seq: 1, Ref: 1, Creates: true, Time: time.UnixMilli(1000)}}
	lanes := []string{"fulfil", "fulfil/go#1", "fulfil/go#2", "fulfil/go#2/deep#1/deeper#1", "fulfil/map#1.1", "fulfil/map#1.2", "fulfil/map#1.2/pack#1", "aside"}
	var open []admin.Event
	for len(log) < events {
		e := admin.Event{Seq: uint64(len(log) + 1), Time: time.UnixMilli(int64(1000 + 10*len(log)))}
		if len(open) == 0 || r.IntN(3) == 0 {
			name := []string{"ship", "charge"}[r.IntN(20)/19]
			e.Type, e.Ref, e.Creates, e.Name = "step_created", e.Seq, true, name
			e.Key = fmt.Sprintf("%s/%s#%d", lanes[min(r.IntN(2*len(lanes)), 3*len(lanes)/2)%len(lanes)], name, e.Seq)
			open = append(open, e)
		} else {
			i := r.IntN(len(open))
			e.Ref, e.Type = open[i].Ref, []string{"step_started", "step_retrying", "step_completed", "step_failed"}[r.IntN(4)]
			if e.Type == "step_completed" || e.Type == "step_failed" {
				open = append(open[:i], open[i+1:]...)
			}
		}
		log = append(log, e)
	}
	return log
}

// TestOPS2_LanesThatGrowAreThoseOfTheWholeLog proves that a tree that was drawn after each event
// equals the tree that was built from the whole log.
func TestOPS2_LanesThatGrowAreThoseOfTheWholeLog(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		log := chance(r, 1+r.IntN(120))
		grown := newSkeleton()
		for i := range log {
			grown.add(&log[i])
			whole := newSkeleton()
			for j := range log[:i+1] {
				whole.add(&log[j])
			}
			if diff := cmp.Diff(rowsOf(whole.lanes.top(), 0), rowsOf(grown.lanes.top(), 0)); diff != "" {
				t.Fatalf("seed %d, after event %d (-whole +grown):\n%s", seed, i+1, diff)
			}
			if whole.bytes != grown.bytes {
				t.Fatalf("seed %d, after event %d: %d bytes are counted, want %d", seed, i+1, grown.bytes, whole.bytes)
			}
		}
	}
}

// TestOPS2_LanesAreDrawnAsTheKeysSay proves how operations are drawn. A branch with one operation
// is drawn as the operation. Many consecutive operations with the same name are drawn as one row.
// All other operations are drawn by their keys.
func TestOPS2_LanesAreDrawnAsTheKeysSay(t *testing.T) {
	s := newSkeleton()
	s.add(&admin.Event{Type: "run_created", Seq: 1, Ref: 1, Creates: true})
	begin := func(key, name string) uint64 {
		n := s.events + 1
		s.add(&admin.Event{Type: "step_created", Seq: n, Ref: n, Creates: true, Key: key, Name: name, Time: time.UnixMilli(int64(n))})
		return n
	}
	begin("fulfil/charge#1", "charge")
	begin("fulfil/go#1/pack#1", "pack")
	first := begin("fulfil/go#2/ship#1", "ship")
	begin("fulfil/go#2/ship#2", "ship")
	begin("fulfil/map#1.1/price#1", "price")
	begin("fulfil/map#1.2/price#1", "price")
	for range 13 {
		begin(fmt.Sprintf("fulfil/poll#%d", s.events), "poll")
	}
	begin("fulfil/graph#1.pay/charge#1", "charge")
	begin("fulfil/graph#1.post/ship#1", "ship")
	begin("fulfil/graph#1.post/ship#2", "ship")
	s.add(&admin.Event{Type: "step_failed", Seq: s.events + 1, Ref: first, Time: time.UnixMilli(99)})
	s.add(&admin.Event{Type: "step_completed", Seq: s.events + 1, Ref: first + 4, Time: time.UnixMilli(100)})
	want := strings.Split(`fulfil "" at /fulfil: 22 operations, 20 go on, 1 failed, from 2 at 2 to 100
  charge "" at /fulfil/charge#1: 1 operations, 1 go on, 0 failed, from 2 at 2 to 2
  pack "go#1" at /fulfil/go#1/pack#1: 1 operations, 1 go on, 0 failed, from 3 at 3 to 3
  go "#2" at /fulfil/go#2: 2 operations, 1 go on, 1 failed, from 4 at 4 to 99
    ship "" at /fulfil/go#2/ship#1: 1 operations, 0 go on, 1 failed, from 4 at 4 to 99
    ship "#2" at /fulfil/go#2/ship#2: 1 operations, 1 go on, 0 failed, from 5 at 5 to 5
  map "#1" at /fulfil/map#1: 2 operations, 2 go on, 0 failed, from 6 at 6 to 7
    price "map#1.1" at /fulfil/map#1.1/price#1: 1 operations, 1 go on, 0 failed, from 6 at 6 to 6
    price "map#1.2" at /fulfil/map#1.2/price#1: 1 operations, 1 go on, 0 failed, from 7 at 7 to 7
  poll "" at /fulfil/poll#7*: 13 operations, 12 go on, 0 failed, from 8 at 8 to 100
  graph "#1" at /fulfil/graph#1: 3 operations, 3 go on, 0 failed, from 21 at 21 to 23
    charge "pay" at /fulfil/graph#1.pay/charge#1: 1 operations, 1 go on, 0 failed, from 21 at 21 to 21
    post "" at /fulfil/graph#1.post: 2 operations, 2 go on, 0 failed, from 22 at 22 to 23
      ship "" at /fulfil/graph#1.post/ship#1: 1 operations, 1 go on, 0 failed, from 22 at 22 to 22
      ship "#2" at /fulfil/graph#1.post/ship#2: 1 operations, 1 go on, 0 failed, from 23 at 23 to 23`, "\n")
	var got []string
	for _, row := range rowsOf(s.lanes.top(), 0) {
		if !strings.HasPrefix(row, "    poll") {
			got = append(got, row)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lanes (-want +got):\n%s", diff)
	}
}
