// Package paging assembles pages of runs, for all stores: it merges sorted parts of an index, stops
// when the page is full or the budget of the query is spent, and returns where the next page
// continues.
//
// A store provides [Source]s: each has runs in the order of the query, and returns those after a
// position. A [Merge] reads a few at a time from each and returns all of them in one order. The
// store finds out which of them match, from the index or from the run, and adds the result to the
// [Page].
//
//	page, err := paging.New(&q)
//	if err != nil {
//		return store.Page{}, err
//	}
//	merge := paging.NewMerge(page, false, sources)
//	for page.More() {
//		entry, ok, err := merge.Next()
//		if err != nil {
//			return store.Page{}, err
//		}
//		if !ok {
//			page.End()
//			break
//		}
//		page.Add(entry.At, record) // record is nil if the run does not match
//	}
//	return page.Done(), nil
//
// A source may be read again at any time, and returns its content at that time. If a source has
// several parts between which runs move, such as ended and unfinished runs, it must read all of
// them as of one moment, so that no run is missed because it has moved meanwhile.
//
// [FailureGroups] does the same for failure groups, of which there are few.
package paging
