// Package orders has types that a client cannot have.
//
//flow:package name=clienttypes client=ordersclient
package orders

import (
	"errors"
	"strconv"

	"github.com/flowgen/flowgen/internal/generator/testdata/mistakes/client_types/wire"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order has what the client cannot have.
type Order struct {
	Price  Price
	Color  Color
	System System
	Raw    wire.Raw
	Batch  []TransferInput
}

// Price is stored by a function.
type Price struct{ cents int }

// MarshalText is that.
func (p Price) MarshalText() ([]byte, error) { return format(p.cents), nil }

// UnmarshalText reads a variable.
func (p *Price) UnmarshalText(text []byte) (err error) {
	if len(text) > limit {
		return errors.New("too long")
	}
	p.cents, err = strconv.Atoi(string(text))
	return err
}

func format(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

var limit = 10

// Color prints itself by a method that stays behind.
type Color int

// String is that.
func (c Color) String() string { return c.name() }

func (c Color) name() string { return "red" }

// ErrGone is made by a function.
//
//flow:error
var ErrGone = gone()

func gone() error { return errors.New("gone") }

// Approval is named by a function.
var Approval = workflow.NewTopic[int](topic())

func topic() strings { return "approval" }

type strings = wire.Name

// Late has no value.
var Late workflow.Value[int]

func init() { Late = workflow.NewValue[int]("late") }

//flow:workflow singleton=key(order)
func fulfil(ctx workflow.Context, order Order) error { return nil }

func key(order Order) wire.Name { return "x" }

//flow:workflow
func transfer(ctx workflow.Context, from, to int) error { return nil }
