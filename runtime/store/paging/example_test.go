package paging_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

// list implements List for a store that keeps its records in several shelves, each sorted newest
// first.
func list(q store.Query, shelves ...[]store.Record) (store.Page, error) {
	var sources []paging.Source[*store.Record]
	for _, shelf := range shelves {
		sources = append(sources, func(after paging.Position, n int) (runs []paging.Entry[*store.Record], more bool, err error) {
			for i := range shelf {
				at := paging.Of(&shelf[i])
				switch {
				case after.Run != "" && store.NewestFirst(&shelf[i], &store.Record{Run: after.Run, CreatedAt: time.UnixMilli(after.Created)}) <= 0:
				case len(runs) == n:
					return runs, true, nil
				case q.Matches(&shelf[i]):
					runs = append(runs, paging.Entry[*store.Record]{At: at, Value: &shelf[i]})
				default:
					runs = append(runs, paging.Entry[*store.Record]{At: at})
				}
			}
			return runs, false, nil
		})
	}
	page, err := paging.New(&q)
	if err != nil {
		return store.Page{}, err
	}
	merge := paging.NewMerge(page, false, sources)
	for page.More() {
		next, found, err := merge.Next()
		if err != nil {
			return store.Page{}, err
		}
		if !found {
			page.End()
			break
		}
		page.Add(next.At, next.Value) // the value is nil if the run does not match
	}
	return page.Done(), nil
}

func Example() {
	var shelves [2][]store.Record
	for n := range 10 {
		at := time.UnixMilli(int64(1000 + n)).UTC()
		r := store.Record{Run: event.RunID(fmt.Sprintf("wrun_0000000000000000000000000%d", n)), CreatedAt: at, Status: event.StatusCompleted}
		if n%4 == 0 {
			r.Status = event.StatusFailed
		}
		shelves[n%2] = append(shelves[n%2], r)
	}
	slices.Reverse(shelves[0])
	slices.Reverse(shelves[1])
	q := store.Query{Statuses: []event.Status{event.StatusFailed}, Limit: 2, Budget: 3}
	for {
		page, err := list(q, shelves[0], shelves[1])
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, r := range page.Runs {
			fmt.Print(string(r.Run)[len(r.Run)-1:], " ")
		}
		fmt.Println("of", page.Looked, "partial:", page.Partial)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return
		}
	}
	// Output:
	// 8 of 3 partial: true
	// 4 of 3 partial: true
	// of 3 partial: true
	// 0 of 1 partial: false
}
