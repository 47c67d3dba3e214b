package dag_struct

import (
	"context"
	"errors"
	"sync"
)

//flow:dag
type number int

//flow:dag
type generic[T any] struct{ In T }

//flow:dag
type alias = struct{ In int }

//flow:dag
type Exported struct{ In int }

//flow:dag
type _private struct{}

//flow:dag
type empty struct{ In int }

// Base is embedded.
type Base struct{ ID string }

//flow:dag
type fields struct {
	Base
	Done   chan bool
	Secret string `json:"-"`
	One    int    `json:"x"`
	Two    int    `json:"X"`
	Bad    undefined
	mu     sync.Mutex
}

//flow:step
func (f *fields) run(ctx context.Context) error { return nil }

//flow:dag
//flow:error
type both struct{}

//flow:dag
func function() {}

//flow:dag
var variable = errors.New("x")

//flow:dag
type (
	one struct{}
	two struct{}
)
