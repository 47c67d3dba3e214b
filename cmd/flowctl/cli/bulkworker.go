package cli

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/worker"
)

// serveAdmin does what operators have asked for, such as bulk actions, until ctx ends or stop is called. What is under way
// then goes on with the next worker of its queue. A store that takes no worker is an error of stop.
func (c *command) serveAdmin(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	w := worker.New(c.client, worker.Config{Queues: []string{admin.AdminQueue}})
	admin.Register(w, c.onStore())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}
