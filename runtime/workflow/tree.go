package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Tree is a run with the runs that it has started.
type Tree struct {
	RunInfo
	Children []Tree // oldest first
}

// Tree returns a run with its children, their children, and so on. Purged runs are missing, with
// all runs below them. The continuation of a run of the tree is listed as its sibling. Internal
// runs, which hold tokens of hooks or execute steps on other queues, are left out; [Client.List] by
// Root with Filter.Internal returns them. Errors: ErrRunNotFound; [ErrNotSupported] if the store
// cannot be searched.
func (c *Client) Tree(ctx context.Context, id RunID) (Tree, error) {
	top, err := c.Run(id).Info(ctx)
	if err != nil {
		return Tree{}, fmt.Errorf("get tree: %w", err)
	}
	children := map[RunID][]RunInfo{}
	for info, err := range c.List(ctx, Filter{Root: top.Root}) {
		if err != nil {
			return Tree{}, fmt.Errorf("get tree of run %s: %w", id, err)
		}
		if info.Parent != "" {
			children[info.Parent] = append(children[info.Parent], info)
		}
	}
	return grow(top, children, map[RunID]bool{top.ID: true}), nil
}

// grow visits each run once: a run created by an import may be its own parent.
func grow(info RunInfo, children map[RunID][]RunInfo, seen map[RunID]bool) Tree {
	t := Tree{RunInfo: info}
	own := children[info.ID]
	slices.SortFunc(own, func(a, b RunInfo) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
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
