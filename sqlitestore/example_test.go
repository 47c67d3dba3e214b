package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// The contents of the file survive the store and the process.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "orders.db")

	st, err := sqlitestore.Open(path)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	run := storetest.NewLog(&storetest.IDs{}, st.Clock(), event.NewRunID(time.Now(), 0), event.Spec{Workflow: "orders.fulfil"})
	if _, err := st.Create(ctx, []store.Create{run.Create()}); err != nil {
		panic(err)
	}
	if err := st.Close(); err != nil {
		panic(err)
	}

	st, err = sqlitestore.Open(path)
	if err != nil {
		panic(err)
	}
	defer st.Close()
	loaded, err := st.Load(ctx, []store.Load{{Run: run.Run}})
	if err != nil {
		panic(err)
	}
	fmt.Println(loaded[0].Record.QueueState, loaded[0].Record.Status, len(loaded[0].Frames))
	// Output: ready pending 1
}

// With Full every completed operation survives a loss of power.
func ExampleOpenWith() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	st, err := sqlitestore.OpenWith(filepath.Join(dir, "orders.db"), sqlitestore.Config{Synchronous: sqlitestore.Full})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	fmt.Println(st.Partitions())
	// Output: 1
}
