package workflow

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

// hosts contains the workers of a client.
type hosts struct {
	all atomic.Pointer[[]handover.Host]
}

func (h *hosts) add(host handover.Host) (leave func()) {
	h.change(func(all []handover.Host) []handover.Host { return append(all, host) })
	return func() {
		h.change(func(all []handover.Host) []handover.Host {
			return slices.DeleteFunc(all, func(other handover.Host) bool { return other == host })
		})
	}
}

func (h *hosts) change(f func([]handover.Host) []handover.Host) {
	for {
		before := h.all.Load()
		var all []handover.Host
		if before != nil {
			all = slices.Clone(*before)
		}
		all = f(all)
		if h.all.CompareAndSwap(before, &all) {
			return
		}
	}
}

func (h *hosts) list() []handover.Host {
	if all := h.all.Load(); all != nil {
		return *all
	}
	return nil
}

// take offers a start to the workers, and reports whether one accepted it.
func (h *hosts) take(s *handover.Start) bool {
	return slices.ContainsFunc(h.list(), func(host handover.Host) bool { return host.Take(s) })
}

// follow waits for the end of a run that a worker of this process executes. It returns false if
// there is no such worker.
func (h *hosts) follow(ctx context.Context, run RunID) (*handover.End, bool) {
	for _, host := range h.list() {
		if end, ok := host.Follow(ctx, run); ok {
			return end, true
		}
	}
	return nil, false
}

// patience is how long a client waits for a worker to begin a start before it withdraws the start.
// Workflow code that runs long before its first wait must not delay the caller of Start.
const patience = 100 * time.Millisecond

// create stores runs: workers of this process store the starts that they can begin at once, and the
// client stores the others. Each start is stored at most once: see [handover.Start].
func (c *Client) create(ctx context.Context, starts []*handover.Start) ([]store.Created, error) {
	answers := make([]store.Created, len(starts))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var given, left []int
	for i, s := range starts {
		if c.hosts.take(s) {
			given = append(given, i)
		} else {
			left = append(left, i)
		}
	}
	if err := c.createAlone(ctx, starts, left, answers); err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return answers, nil
	}
	left = left[:0]
	late := make(chan struct{})
	defer time.AfterFunc(patience, func() { close(late) }).Stop()
	for _, i := range given {
		a, err := awaitStart(ctx, starts[i], late)
		switch {
		case err != nil:
			return nil, err
		case a.Declined:
			left = append(left, i)
		default:
			answers[i] = a.Created
		}
	}
	return answers, c.createAlone(ctx, starts, left, answers)
}

// awaitStart waits for the answer to a start that was handed over. When late is closed it withdraws
// the start, unless the start was begun.
func awaitStart(ctx context.Context, s *handover.Start, late <-chan struct{}) (handover.Answer, error) {
	select {
	case a := <-s.Answers:
		return a, a.Err
	case <-late:
	case <-ctx.Done():
	}
	if s.Withdraw() {
		return handover.Answer{Declined: true}, ctx.Err()
	}
	select {
	case a := <-s.Answers:
		return a, a.Err
	case <-ctx.Done():
		return handover.Answer{}, ctx.Err()
	}
}

// createAlone stores the starts with the indexes in which.
func (c *Client) createAlone(ctx context.Context, starts []*handover.Start, which []int, answers []store.Created) error {
	if len(which) == 0 {
		return nil
	}
	requests := make([]store.Create, len(which))
	for i, n := range which {
		var err error
		if requests[i], err = starts[n].Request(); err != nil {
			return err
		}
	}
	created, err := c.request(ctx, requests)
	if err != nil {
		return err
	}
	for i, n := range which {
		answers[n] = created[i]
	}
	return nil
}

// request sends starts to the store. Starts that share a run are retried during an outage: the
// caller could not retry them without joining twice. The store remembers for a Horizon that a start
// has joined.
func (c *Client) request(ctx context.Context, starts []store.Create) (created []store.Created, err error) {
	if starts[0].Gather == nil {
		return c.store.Create(ctx, starts)
	}
	ctx, cancel := context.WithTimeout(ctx, store.Horizon/2)
	defer cancel()
	err = c.persist(ctx, "start a run", func() (err error) {
		created, err = c.store.Create(ctx, starts)
		return err
	})
	return created, err
}
