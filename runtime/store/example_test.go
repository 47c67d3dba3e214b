package store_test

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// The scheme of the URL selects the store, so a flag or an environment variable can choose it.
func ExampleOpen() {
	st, err := store.Open(context.Background(), "memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	fmt.Println(st.Partitions())
	// Output: 1
}

// counting wraps a store and counts its commits.
type counting struct {
	store.Store
	commits int
}

func (c *counting) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	c.commits += len(commits)
	return c.Store.Commit(ctx, commits)
}

// Unwrap returns the wrapped store, so that As finds its optional interfaces.
func (c *counting) Unwrap() store.Store { return c.Store }

// As finds an optional interface of a wrapped store.
func ExampleAs() {
	st := &counting{Store: memstore.New()}
	defer st.Close()
	lister, ok := store.As[store.Lister](st)
	if !ok {
		fmt.Println("the store cannot be searched")
		return
	}
	page, err := lister.List(context.Background(), store.Query{})
	fmt.Println(len(page.Runs), err)
	// Output: 0 <nil>
}
