// Package payloads holds every kind of type that can be stored.
package payloads

import (
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	. "strings"
	"time"

	"github.com/flowgen/flowgen/generated/payloads/wire"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Tree is recursive.
type Tree struct {
	Left, Right *Tree
	Children    map[string][]Tree
}

type private struct{ N int }

// Base is embedded.
type Base struct{ ID string }

// Money stores itself.
type Money struct{ cents int64 }

// MarshalText returns the cents.
func (m Money) MarshalText() ([]byte, error) { return json.Marshal(m.cents) }

// UnmarshalText reads them.
func (m *Money) UnmarshalText(text []byte) error { return json.Unmarshal(text, &m.cents) }

// Record has fields of every kind.
type Record struct {
	Base
	private
	Tree    *Tree
	Price   Money
	When    time.Time
	Took    time.Duration
	Amount  *big.Int
	Raw     json.RawMessage
	Number  json.Number
	Bytes   []byte
	Runes   [4]rune
	Left    func() `json:"-"`
	Renamed int    `json:"renamed,omitempty"`
	Text    int    `json:",string"`
	_       int
}

// Type, Func and Nil have names that are no good for parameters.
type (
	Type struct{ A int }
	Func map[string]int
	Nil  []string
)

//flow:step
func (Type) one(ctx context.Context) error { return nil }

//flow:step
func (*Func) two(ctx context.Context) error { return nil }

//flow:step
func (Nil) three(ctx context.Context) error { return nil }

//flow:step
func basics(ctx context.Context, a bool, b byte, c rune, d uint64, e float32, f string, g []byte, h *int) (any2 **int, err error) {
	return nil, nil
}

//flow:step
func composites(ctx context.Context, a [2][3]int, b map[string]map[int8][]string, c struct {
	A, B int
	C    string `json:"c" xml:"d"`
}) (map[netip.Addr]Record, error) {
	return nil, nil
}

//flow:step
func generics(ctx context.Context, a wire.Page[private], b wire.Page[wire.Page[*time.Time]], c wire.Visible, d []wire.Visible) (wire.Set[string], error) {
	return nil, nil
}

// Phantom has a type parameter that is never stored: it may be anything.
type Phantom[T any] string

//flow:step
func phantoms(
	ctx context.Context,
	a Phantom[func(http.Header, ...int) (n int, err error)],
	b Phantom[chan (<-chan http.Header)],
	c Phantom[<-chan chan<- func()],
	d Phantom[interface {
		io.Reader
		Head(url string) http.Header
	}],
	e struct {
		A int
		F func(http.Header) error `json:"-"`
		G any                     `json:"-"`
	},
) (Phantom[interface{}], error) {
	return "", nil
}

//flow:step
func special(ctx context.Context, nil string, true int, len []string, type_ Type, interface_ Money, übung int) (result private, err error) {
	return result, err
}

//flow:step key=ToUpper(a.ID)+conv[string](time.Duration(n).String())+[]string{"x","y"}[n%2]+b.Base.ID
func keyed(ctx context.Context, a Record, n int, b Record) error { return nil }

func conv[T ~string](s string) T { return T(s) }

//flow:workflow
func flow(ctx workflow.Context, in workflow.None) (workflow.None, error) {
	return in, TrimErr(One(ctx))
}

// TrimErr returns err.
func TrimErr(err error) error { return err }

//flow:workflow
func structure(ctx workflow.Context, in struct{ A []Tree }) (*Record, error) {
	_ = TrimSpace("")
	return nil, nil
}
