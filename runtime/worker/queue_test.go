package worker

import "testing"

// TestQueue_KeepsTheOrderAndItsSpace proves that items leave a queue in the order in which they
// were added, however their space is reused. The space does not grow with the number of items added
// over time.
func TestQueue_KeepsTheOrderAndItsSpace(t *testing.T) {
	q := newQueue[*int]()
	items := make([]int, 10_000)
	pushed, popped := 0, 0
	for popped < len(items) {
		for range 1 + pushed%7 {
			if pushed < len(items) && pushed-popped < 50 {
				q.push(&items[pushed])
				pushed++
			}
		}
		for range min(1+popped%5, pushed-popped) {
			if got, _ := q.pop(); got != &items[popped] {
				t.Fatalf("item %d came out of its turn", popped)
			}
			popped++
		}
	}
	if most := cap(q.items); most > 256 {
		t.Errorf("the queue has space for %d items, and never held more than 50", most)
	}
	q.close()
	if _, ok := q.pop(); ok {
		t.Error("a closed queue gives out an item")
	}
}
