package worker

import "testing"

// Tasks leave in the order in which they came, however the room for them is used
// again, and that does not grow with how many came.
func TestQueue_KeepsTheOrderAndItsRoom(t *testing.T) {
	var q queue
	q.init()
	tasks := make([]task, 10_000)
	pushed, popped := 0, 0
	for popped < len(tasks) {
		for range 1 + pushed%7 {
			if pushed < len(tasks) && pushed-popped < 50 {
				q.push(&tasks[pushed])
				pushed++
			}
		}
		for range min(1+popped%5, pushed-popped) {
			if got := q.pop(); got != &tasks[popped] {
				t.Fatalf("task %d came out of its turn", popped)
			}
			popped++
		}
	}
	if room := cap(q.tasks); room > 256 {
		t.Errorf("the queue has room for %d tasks, and never held more than 50", room)
	}
	q.close()
	if q.pop() != nil {
		t.Error("a closed queue gives out a task")
	}
}
