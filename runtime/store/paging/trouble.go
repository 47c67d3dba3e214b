package paging

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/runtime/store"
)

// TroubleShare returns how many failure groups a query may examine in each of the given number of
// partitions.
func TroubleShare(q *store.TroubleQuery, partitions int) int {
	budget := q.Budget
	if budget <= 0 {
		budget = store.DefaultBudget
	}
	return max(budget/max(partitions, 1), 1)
}

// Troubles returns a page of the failure groups found in the partitions, in each of them up to its
// [TroubleShare]. cut reports that a partition has more. An invalid cursor is an error.
func Troubles(q *store.TroubleQuery, found []store.TroubleGroup, cut bool) (store.TroublePage, error) {
	last, group, err := q.After()
	if err != nil {
		return store.TroublePage{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 100
	}
	page := store.TroublePage{Partial: cut, Looked: len(found)}
	for _, g := range store.MergeTroubles(found) {
		behind := group == "" || g.Last.Before(last) || g.Last.Equal(last) && g.Group > group
		if !behind || !matches(q, &g) {
			continue
		}
		if len(page.Groups) == limit {
			end := &page.Groups[limit-1]
			page.Cursor = strconv.FormatInt(end.Last.UnixMilli(), 10) + "." + end.Group
			break
		}
		page.Groups = append(page.Groups, g)
	}
	return page, nil
}

// matches reports whether a query selects a group, ignoring Cursor, Limit and Budget.
func matches(q *store.TroubleQuery, g *store.TroubleGroup) bool {
	return (len(q.Groups) == 0 || slices.Contains(q.Groups, g.Group)) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, g.Kind)) &&
		(q.Workflow == "" || q.Workflow == g.Workflow) && (q.Step == "" || q.Step == g.Step) && (!q.Open || g.Open > 0) &&
		(q.Since.IsZero() || !g.Last.Before(q.Since))
}
