// Package clients has a client: callers that start its workflows and talk to them link
// nothing of it.
//
//flow:package client=ordersclient
package clients

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/generated/clients/geo"
	"github.com/flowgen/flowgen/generated/clients/money"
	"github.com/flowgen/flowgen/generated/clients/rates"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order describes a sale.
type Order struct {
	Base
	hidden
	ID    string `json:"id"`
	State State  // where it is
	// Lines are its parts.
	Lines, More []Page[Line]
	Total       money.Amount
	Rate        rates.Rate
	To          geo.Point
	Parent      *Order            `json:",omitempty"`
	When        Stamp             `json:"when,omitzero"`
	From        netip.Addr        `json:"from"`
	Labels      map[Color]string  `json:"labels,omitempty"`
	Sum         [digestSize]byte  `json:"sum"`
	mu          *sync.Mutex       `json:"-"` // stays where it is
	cache       map[string]secret `json:"-"`
}

// Lock is not part of a copy.
func (o *Order) Lock() { o.mu.Lock(); o.cache = nil }

type secret struct{ File *os.File }

const digestSize = 4

// Base is embedded.
type Base struct{ Tenant string }

type hidden struct{ Region string }

// Page is generic.
type Page[T any] struct {
	Items []T
	Next  *Page[T] `json:",omitempty"`
}

type (
	// Line is one of a group.
	Line struct {
		SKU ID
		N   int
	}

	// ID is an alias.
	ID = string

	// Stamp is an alias of another module's type.
	Stamp = time.Time
)

// State is an enumeration.
type State int

// The states.
const (
	Open State = iota + 1 // it can change
	_
	// Closed is the end.
	Closed
)

// String returns the name of a state.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case Closed:
		return "closed"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Color stores itself.
type Color struct{ name string }

// MarshalText writes the name in capitals.
func (c Color) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(c.name)), nil }

// UnmarshalText reads it.
func (c *Color) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("a color without a name")
	}
	c.name = strings.ToLower(string(text))
	return nil
}

// DeclinedError says why.
//
//flow:error
type DeclinedError struct {
	Reason string
	Order  ID
}

func (e *DeclinedError) Error() string { return "declined: " + e.Reason }

var (
	// ErrGone is a sentinel.
	//
	//flow:error
	ErrGone = errors.New("gone")

	//flow:error
	errInside = errors.New("inside") // nobody else can name it
)

// What runs are talked to by.
var (
	Approval = workflow.NewTopic[Decision]("approval")
	Progress = workflow.NewValue[State]("progress")
	Lines    = workflow.NewStream[Line]("lines", workflow.KeepLast(last))
	Paid     = workflow.NewHook[money.Amount]("paid")
	Discount = workflow.NewAsk[int, money.Amount]("discount")

	inside = workflow.NewTopic[int]("inside") // nobody else can name it
)

const last = 10

// Decision is sent.
type Decision struct {
	Yes bool
	By  string
}

// perTenant is used by a directive, so the client has it.
var perTenant = limit.NewKeyed[string]("tenant", limit.Config{AtOnce: 100})

// charge bills the customer.
//
//flow:step retries=0
func charge(ctx context.Context, id string, total money.Amount) (money.Amount, error) {
	switch id {
	case "declined":
		return money.Amount{}, &DeclinedError{Reason: "no money", Order: id}
	case "gone":
		return money.Amount{}, fmt.Errorf("look for it: %w", errors.Join(ErrGone, errInside))
	}
	return total, nil
}

// fulfil sells an order, once somebody approves.
//
//flow:workflow singleton=order.ID,skip priority=len(order.Lines) timeout=24h uses=perTenant(order.Tenant)
func fulfil(ctx workflow.Context, order Order) (Receipt, error) {
	Progress.Set(ctx, Open)
	if _, ok, err := inside.TryReceive(ctx); ok || err != nil {
		return Receipt{}, err
	}
	d, err := Approval.Receive(ctx)
	if err != nil {
		return Receipt{}, err
	}
	total, err := Charge(ctx, order.ID, order.Total)
	if err != nil {
		return Receipt{}, err
	}
	Progress.Set(ctx, Closed)
	return Receipt{ID: order.ID, By: d.By, Total: total, State: Closed, Labels: order.Labels}, nil
}

// Receipt is the result.
type Receipt struct {
	ID     string
	By     string
	Total  money.Amount
	State  State
	Labels map[Color]string
}

// transfer has several inputs.
//
//flow:workflow
func transfer(ctx workflow.Context, from, to string, amount money.Amount) error { return nil }
