// Package paging builds pages of runs for all stores. It merges sorted parts of an index, stops
// when the page is full or the budget of the query is exhausted, and returns the position at which
// the next page begins.
//
// A store provides one or more sources. A [Source] contains runs in the order of the query and
// returns the runs after a position. A [Merge] reads a few runs at a time from each source and
// returns all runs in a common order. The store determines which runs match, from the index or from
// the run, and adds the result to the [Page].
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
// A source may be read several times, and each read returns the contents at that time. If a source
// has several parts and runs move between them, such as unfinished and ended runs, it must read all
// parts at one moment. Otherwise it could miss a run that moves during the read.
//
// [FailureGroups] builds a page of failure groups. It needs no merge, because there are few failure
// groups.
package paging
