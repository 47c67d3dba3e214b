package flows

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Job is the input of every workflow. It determines the operations and the result of the run.
type Job struct {
	ID       int    `json:"id"`
	Seed     uint64 `json:"seed"`
	Steps    int    `json:"steps"`    // number of sequential or parallel steps
	Nap      int    `json:"nap"`      // duration of the sleep in milliseconds
	Work     int    `json:"work"`     // duration of the long step in milliseconds
	Senders  int    `json:"senders"`  // number of senders of messages
	Messages int    `json:"messages"` // number of messages from each sender
	Nested   bool   `json:"nested"`   // a run that holds a limit calls steps that wait for another limit
	Tenant   int    `json:"tenant"`   // number of the tenant, below Tenants
}

// Result is the result type of every workflow.
type Result struct {
	Sum int `json:"sum"`
	// Interrupted reports whether the worker was killed while it executed the step that must not be
	// repeated.
	Interrupted bool `json:"interrupted,omitempty"`
	// Messages contains the received messages in order.
	Messages []Message `json:"messages,omitempty"`
}

// Message is a message to a run. Each sender numbers its messages, beginning with 1.
type Message struct {
	Sender int `json:"sender"`
	Number int `json:"number"`
}

// Key returns the idempotency key of the message.
func (m Message) Key() string { return fmt.Sprintf("%d-%d", m.Sender, m.Number) }

// draw returns a number from 0 to n-1. Equal jobs and equal arguments yield the same number.
func (j Job) draw(n int, what ...any) int {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, append([]any{j.Seed, " ", j.ID, " "}, what...)...) // Writing to a hash never fails.
	return int(h.Sum64() % uint64(n))
}

// failures returns the number of attempts of step n that must fail.
func (j Job) failures(n int) int {
	if k := j.draw(6, "failures", n); k < 3 {
		return k
	}
	return 0
}

func (j Job) nap() time.Duration { return time.Duration(j.Nap) * time.Millisecond }

// value returns the result of step n.
func (j Job) value(n int) int { return j.draw(1000, "value", n) }

func (j Job) values(n int) (sum int) {
	for i := range n {
		sum += j.value(i)
	}
	return sum
}

// The numbers of the steps that [Job.Steps] does not count.
const (
	raced = 1000 + iota
	only
	noted // first number of the steps for messages, to which the number of the message is added
)

// Want returns the sum that the result of the named workflow must contain. It is zero for a
// workflow without a result.
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
