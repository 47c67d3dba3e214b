package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Branch is a run in a tree.
type Branch struct {
	Run
	Depth int `json:"depth"` // below the top of the tree, which has 0
}

// Tree is a run and the runs below it.
type Tree struct {
	// Runs begin with the top. Each one is followed by those that it has started, the oldest first, with all below them. The
	// continuation of a run stands beside it.
	Runs []Branch `json:"runs"`
	// Partial says that the run at the root has more than 1,000 below it: only the oldest were looked at.
	Partial bool `json:"partial"`
}

// maxTree bounds how many runs a tree has.
const maxTree = 1000

// Tree returns a run and those below it, up to 1,000.
// Of a tree a principal with an owner sees the runs of that owner.
func (s *Service) Tree(ctx context.Context, ref string) (Tree, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Tree{}, err
	}
	t, err := s.tree(ctx, ref)
	if err == nil && s.who.Owner != "" {
		err = s.ownBranches(ctx, &t)
	}
	if err != nil {
		return Tree{}, err
	}
	for i := range t.Runs {
		s.hide(&t.Runs[i].Run)
	}
	return t, err
}

// tree is [Service.Tree] without the limits of the principal.
func (s *Service) tree(ctx context.Context, ref string) (Tree, error) {
	_, top, err := s.find(ctx, ref)
	if err != nil {
		return Tree{}, err
	}
	below := map[string][]Run{}
	t := Tree{}
	n := 0
	began, err := s.began(ctx, &top)
	if err != nil {
		return Tree{}, err
	}
	for f := (workflow.Filter{Root: top.Root, From: began, Oldest: true}); ; {
		page, err := s.client.Page(ctx, f, maxTree-n)
		if err != nil {
			return Tree{}, err
		}
		for i := range page.Runs {
			if parent := string(page.Runs[i].Parent); parent != "" {
				below[parent] = append(below[parent], runOf(&page.Runs[i]))
			}
		}
		n += len(page.Runs)
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
		if n >= maxTree || page.Partial {
			t.Partial = true
			break
		}
	}
	t.grow(runOf(&top), 0, below, map[string]bool{})
	return t, nil
}

// began returns a time before which there is nothing of the tree of a run, so that a store need not look at what is older.
func (s *Service) began(ctx context.Context, of *workflow.RunInfo) (time.Time, error) {
	if of.Root == of.ID {
		return of.CreatedAt, nil
	}
	root, err := s.client.Run(of.Root).Info(ctx)
	switch {
	case errors.Is(err, workflow.ErrRunNotFound): // it was purged: what is looked for is below a child of it
		return of.Root.Time().Add(-time.Hour), nil // which is by the clock of whoever has started it
	case err != nil:
		return time.Time{}, fmt.Errorf("find the root of run %s: %w", of.ID, err)
	}
	return root.CreatedAt, nil
}

// grow takes each run once: one that an import has brought may be its own parent.
func (t *Tree) grow(r Run, depth int, below map[string][]Run, seen map[string]bool) {
	if seen[r.ID] {
		return
	}
	seen[r.ID] = true
	t.Runs = append(t.Runs, Branch{r, depth})
	children := below[r.ID]
	slices.SortFunc(children, func(a, b Run) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) })
	for i := range children {
		t.grow(children[i], depth+1, below, seen)
	}
}
