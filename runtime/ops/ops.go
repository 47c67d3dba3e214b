// Package ops is the API for operators. It reads the contents of a store and the state of its
// workers, and it changes runs, limits and schedules. Programs that start runs, and workflow code,
// use package workflow.
//
// Create a client of this package from a workflow.Client, for example in an admin server, a command
// or a health check:
//
//	client := workflow.NewClient(st, workflow.ClientConfig{})
//	operator := ops.New(client)
//	fleet, err := operator.Fleet(ctx)
//
// Reading order:
//
//   - [Client.Fleet]: workers, and the runs that wait for them
//   - [Client.Rates]: throughput of the workers and latencies of steps
//   - [Client.Catalog]: the workflows that workers have registered
//   - [Client.FailureGroups]: runs that have failed, are retried or are blocked, by reason
//   - [Client.Limits]: configuration and use of limits
//   - [Client.Schedules]: starts of runs at planned times
//   - [Client.Tree], [Client.LastRecovery], [Client.Inbox], [Client.Orders], [Client.Streams],
//     [Client.StreamPage]: details of one run
//   - [Client.CancelMany], [Client.Terminate], [Client.Delete], [Client.DeleteMany]: ends of runs
//   - [Client.Views], [Client.Journal]: records that operators share
//
// Lists and counts of runs are in package workflow, because programs also need them: see
// [workflow.Client.List].
package ops

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Client reads and changes a store for operators. It is safe for concurrent use. If the
// workflow.Client from which it was made is closed, its methods fail with workflow.ErrClientClosed.
type Client struct {
	client *workflow.Client
	inner  flow.Engine
	store  store.Store
}

// New returns a client for the store of c. It makes no request. The client needs no Close.
func New(c *workflow.Client) *Client {
	return &Client{client: c, inner: (*flow.Client)(c).Engine(), store: c.Store()}
}

// capability returns the store as a T. operation describes the operation in the error. The error
// matches workflow.ErrNotSupported if the store does not implement T.
func capability[T any](c *Client, operation string) (T, error) {
	if err := c.inner.Check(); err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", operation, err)
	}
	t, ok := store.As[T](c.store)
	if !ok {
		return t, fmt.Errorf("%s: %w", operation, workflow.ErrNotSupported)
	}
	return t, nil
}
