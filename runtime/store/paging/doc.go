// Package paging puts pages of runs together, for all stores: it merges sorted parts of an
// index, stops when the page is full or the budget of the query is spent, and says where
// the next page goes on.
//
// A store names its [Source]s: each has runs in the order of the query, and gives those that
// come after a position. A [Merge] asks them for a few at a time and delivers all of them in
// one order. What of them matches, the store finds out, from the index or from the run, and
// tells the [Page].
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
//		page.Add(entry.At, record) // nil: it does not match
//	}
//	return page.Done(), nil
//
// A source may be asked again at any time, and gives what it has then. One that has several
// parts between which runs move, such as those that have ended and the others, gives all of them
// as of one moment: so no run is missed because it has moved meanwhile.
//
// [Troubles] does the same for groups of trouble, of which there are few.
package paging
