package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// load reads the record of a run and up to l.Limit frames.
func (c *Client) load(ctx context.Context, l store.Load) (store.Loaded, error) {
	if err := c.inner.Check(); err != nil {
		return store.Loaded{}, err
	}
	if err := checkID(l.Run); err != nil {
		return store.Loaded{}, err
	}
	loaded, err := c.store.Load(ctx, []store.Load{l})
	if err != nil {
		return store.Loaded{}, err
	}
	return loaded[0], loaded[0].Err
}

// checkID returns an error if run does not have the form of a run ID. For example, it may be a
// workflow ID.
func checkID(run workflow.RunID) error {
	if _, err := event.ParseRunID(string(run)); err != nil {
		return fmt.Errorf("%w: for a workflow id use the ID from the Info of workflow.Client.RunByID", err)
	}
	return nil
}

// Tree is a run with the runs that it has started.
type Tree struct {
	workflow.RunInfo
	Children []Tree // oldest first
}

// Tree returns a run with its descendants. Purged runs and their descendants are missing. The
// continuation of a run is a sibling of that run. Tree leaves out internal runs, which hold tokens
// of hooks or execute steps on other queues. To list internal runs, call [workflow.Client.List]
// with Root and Filter.Internal. Errors: workflow.ErrRunNotFound; or workflow.ErrNotSupported if
// the store cannot be searched.
func (c *Client) Tree(ctx context.Context, run workflow.RunID) (Tree, error) {
	top, err := c.client.Run(run).Info(ctx)
	if err != nil {
		return Tree{}, fmt.Errorf("get tree: %w", err)
	}
	children := map[workflow.RunID][]workflow.RunInfo{}
	for info, err := range c.client.List(ctx, workflow.Filter{Root: top.Root}) {
		if err != nil {
			return Tree{}, fmt.Errorf("get tree of run %s: %w", run, err)
		}
		if info.Parent != "" {
			children[info.Parent] = append(children[info.Parent], info)
		}
	}
	return grow(top, children, map[workflow.RunID]bool{top.ID: true}), nil
}

// grow adds the children of a run to its tree. It adds each run once, because an imported run may
// be its own ancestor.
func grow(info workflow.RunInfo, children map[workflow.RunID][]workflow.RunInfo, seen map[workflow.RunID]bool) Tree {
	t := Tree{RunInfo: info}
	own := children[info.ID]
	slices.SortFunc(own, func(a, b workflow.RunInfo) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, child := range own {
		if seen[child.ID] {
			continue
		}
		seen[child.ID] = true
		child.Depth = info.Depth + 1
		t.Children = append(t.Children, grow(child, children, seen))
	}
	return t
}

// Inbox returns the items of a run's inbox in the order in which the run will receive them:
// messages, cancel requests and results of children. A run receives its items with its next commit.
// An item stays in the inbox while the run waits for a worker that serves it, for the end of a
// pause, or for compatible code. The returned events have no numbers and times. The inbox of a run
// that has ended is empty. The error matches workflow.ErrRunNotFound if the run does not exist. It
// is a *[workflow.EventError] if an item cannot be read.
func (c *Client) Inbox(ctx context.Context, run workflow.RunID) ([]event.Event, error) {
	l, err := c.load(ctx, store.Load{Run: run, Limit: -1, Inbox: true})
	if err != nil {
		return nil, fmt.Errorf("read the inbox of run %s: %w", run, err)
	}
	all := make([]event.Event, 0, len(l.Inbox))
	for i := range l.Inbox {
		e, err := event.DecodeItem(l.Inbox[i].Body)
		if err != nil {
			return nil, fmt.Errorf("read the inbox: %w", &workflow.EventError{Run: run, Frame: l.Record.N + 1, Err: err})
		}
		e.Item = l.Inbox[i].ID
		all = append(all, *e)
	}
	return all, nil
}

// Orders are the requests to an open run that its log contains.
type Orders struct {
	Paused       bool   // the code is suspended until the run is resumed; false for a run that is stopped only by debug mode
	Canceling    bool   // the run was asked to end or must end, and its code cleans up
	CancelReason string // reason of the first request to cancel
}

// Orders returns the requests that the log of a run contains. It reads only the events added since
// its last call. If a part of the log cannot be read, the result covers the events before that
// part.
func (c *Client) Orders(ctx context.Context, run workflow.RunID) (Orders, error) {
	o, err := c.inner.Orders(ctx, run)
	return Orders(o), err
}

// Recovery describes how a run was recovered from a lost worker.
type Recovery struct {
	Time   time.Time
	Reason string // for example expired_claim, process_ended or session_closed
	From   string // name of the lost worker
	By     string // name of the worker that detected the loss
}

// LastRecovery returns the last recovery of a run that the store has recorded, or nil if there is
// none.
func (c *Client) LastRecovery(ctx context.Context, run workflow.RunID) (*Recovery, error) {
	if err := checkID(run); err != nil {
		return nil, fmt.Errorf("read recoveries: %w", err)
	}
	auditor, err := capability[store.Auditor](c, "read the recoveries of run "+string(run))
	if errors.Is(err, workflow.ErrNotSupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trail, err := auditor.Audit(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("read the recoveries of run %s: %w", run, err)
	}
	for _, e := range slices.Backward(trail) {
		if e.Reason != store.ReasonImported {
			return &Recovery{Time: e.Time, Reason: string(e.Reason), From: worker(e.Owner), By: worker(e.By)}, nil
		}
	}
	return nil, nil
}

// worker returns the name of the worker that has opened a session. The session ID begins with that
// name.
func worker(s store.SessionID) string {
	if at := strings.LastIndexByte(string(s), '/'); at >= 0 {
		return string(s[:at])
	}
	return string(s)
}
