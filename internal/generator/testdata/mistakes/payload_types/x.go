package payload_types

import (
	"context"
	"database/sql"
	"time"
	"unsafe"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type item struct {
	Name string
	Done chan bool
}

type order struct {
	Items    []item
	Callback map[string]func()
}

type node struct {
	Left, Right *node
	Value       int
	When        time.Time
}

//flow:step
func deep(ctx context.Context, order order) error { return nil }

//flow:step
func direct(ctx context.Context, c chan int, f func(), p unsafe.Pointer, z complex128, u uintptr) error {
	return nil
}

//flow:step
func interfaces(ctx context.Context, v any, s interface{ String() string }, err error, ctx2 context.Context) error {
	return nil
}

//flow:step
func result(ctx context.Context) (map[string][]chan int, error) { return nil, nil }

//flow:step
func errorResult(ctx context.Context) (error, error) { return nil, nil }

//flow:step
func recursive(ctx context.Context, n node) (*node, error) { return nil, nil }

//flow:step
func dependency(ctx context.Context, db *sql.DB, list ...any) error { return nil }

//flow:workflow
func flow(ctx workflow.Context, other workflow.Context, order order) error { return nil }
