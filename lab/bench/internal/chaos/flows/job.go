package flows

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Job is the input of every workflow: what it does, and what comes of it, can be
// computed from it.
type Job struct {
	ID       int    `json:"id"`
	Seed     uint64 `json:"seed"`
	Steps    int    `json:"steps"`    // one after the other, or side by side
	Nap      int    `json:"nap"`      // milliseconds that it sleeps
	Work     int    `json:"work"`     // milliseconds that its long step takes
	Senders  int    `json:"senders"`  // of messages
	Messages int    `json:"messages"` // by each of them
	Nested   bool   `json:"nested"`   // steps of a run that holds a limit wait for another one
	Tenant   int    `json:"tenant"`   // below Tenants
}

// Result is returned by every workflow.
type Result struct {
	Sum int `json:"sum"`
	// Interrupted says that the step that must not be repeated began, and that its
	// worker died before it ended.
	Interrupted bool `json:"interrupted,omitempty"`
	// Messages are those that the run took, in order.
	Messages []Message `json:"messages,omitempty"`
}

// Message is sent by senders. Number counts from 1 for each sender.
type Message struct {
	Sender int `json:"sender"`
	Number int `json:"number"`
}

// Key is the idempotency key of the message.
func (m Message) Key() string { return fmt.Sprintf("%d-%d", m.Sender, m.Number) }

// draw returns a number below n that depends on the job and on what it is for.
func (j Job) draw(n int, what ...any) int {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, append([]any{j.Seed, " ", j.ID, " "}, what...)...) // a hash takes everything
	return int(h.Sum64() % uint64(n))
}

// failures is how many attempts of a step fail.
func (j Job) failures(n int) int {
	if k := j.draw(6, "failures", n); k < 3 {
		return k
	}
	return 0
}

func (j Job) nap() time.Duration { return time.Duration(j.Nap) * time.Millisecond }

// value is the result of a step.
func (j Job) value(n int) int { return j.draw(1000, "value", n) }

func (j Job) values(n int) (sum int) {
	for i := range n {
		sum += j.value(i)
	}
	return sum
}

// The places of steps outside of the row of [Job.Steps].
const (
	raced = 1000 + iota
	only
	noted // and the number of the message
)

// Want returns the sum that the named workflow must have in its result. Of one
// that ends without a result it is zero.
func (j Job) Want(workflow string, r Result) int {
	switch workflow {
	case Chain.Name():
		sum := j.values(j.Steps) + refusedValue
		if !r.Interrupted {
			sum += j.value(only)
		}
		return sum
	case Fan.Name():
		return j.values(j.Steps) + 2*j.value(raced)
	case Mail.Name():
		sum := 0
		for n := 1; n <= j.Messages; n++ {
			sum += j.Senders * j.value(noted+n)
		}
		return sum
	case Long.Name():
		return j.value(only)
	case Crowd.Name(), Holder.Name(), Hoarder.Name():
		return j.values(j.Steps)
	}
	return 0
}
