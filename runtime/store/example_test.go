package store_test

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// Open finds a store by the scheme of its URL, so that a flag or an environment
// variable can choose it.
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

// counting is a store that counts the commits of the one it wraps.
type counting struct {
	store.Store
	commits int
}

func (c *counting) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	c.commits += len(commits)
	return c.Store.Commit(ctx, commits)
}

// Unwrap lets the optional abilities of the wrapped store be found.
func (c *counting) Unwrap() store.Store { return c.Store }

// As finds an optional ability behind a wrapper.
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
