package paging

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/runtime/store"
)

// TroubleShare returns how many groups of each of so many partitions a query may look at.
func TroubleShare(q *store.TroubleQuery, partitions int) int {
	budget := q.Budget
	if budget <= 0 {
		budget = store.DefaultBudget
	}
	return max(budget/max(partitions, 1), 1)
}

// Troubles makes a page of the groups that were found in the partitions, in each of them up to its [TroubleShare]. cut says
// that a partition has more. A cursor that is that of no page is an error.
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

// matches reports whether a query selects a group. Cursor, Limit and Budget are not looked at.
func matches(q *store.TroubleQuery, g *store.TroubleGroup) bool {
	return (len(q.Groups) == 0 || slices.Contains(q.Groups, g.Group)) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, g.Kind)) &&
		(q.Workflow == "" || q.Workflow == g.Workflow) && (q.Step == "" || q.Step == g.Step) && (!q.Open || g.Open > 0) &&
		(q.Since.IsZero() || !g.Last.Before(q.Since))
}
