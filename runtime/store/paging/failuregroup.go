package paging

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/runtime/store"
)

// FailureGroupShare returns the maximum number of failure groups that a query may read in each
// partition. It divides the budget of the query by the number of partitions.
func FailureGroupShare(q *store.FailureGroupQuery, partitions int) int {
	budget := q.Budget
	if budget <= 0 {
		budget = store.DefaultBudget
	}
	return max(budget/max(partitions, 1), 1)
}

// FailureGroups returns a page of the failure groups that were found in all partitions. In each
// partition the store reads at most [FailureGroupShare] groups. cut reports that a partition has
// more groups. FailureGroups returns an error if the cursor is invalid.
func FailureGroups(q *store.FailureGroupQuery, found []store.FailureGroupInfo, cut bool) (store.FailureGroupPage, error) {
	last, group, err := q.After()
	if err != nil {
		return store.FailureGroupPage{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 100
	}
	page := store.FailureGroupPage{Partial: cut, Looked: len(found)}
	for _, g := range store.MergeFailureGroups(found) {
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

// matches reports whether the query selects a group. It ignores Cursor, Limit and Budget.
func matches(q *store.FailureGroupQuery, g *store.FailureGroupInfo) bool {
	return (len(q.Groups) == 0 || slices.Contains(q.Groups, g.Group)) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, g.Kind)) &&
		(q.Workflow == "" || q.Workflow == g.Workflow) && (q.Step == "" || q.Step == g.Step) && (!q.Open || g.Open > 0) &&
		(q.Since.IsZero() || !g.Last.Before(q.Since))
}
