package payload_fields

import (
	"context"
	"math/big"
	"net/url"
	"sync"
	"time"
)

type account struct {
	ID      string
	secret  string
	cache   int    `json:"-"`
	Skipped func() `json:"-"`
	_       struct{}
	mu      sync.Mutex
}

type inner struct {
	Name  string
	inner int
}

type outer struct {
	inner
	Note string
}

type pointerEmbedded struct {
	*inner
	Note string
}

type number int

type lostEmbedded struct {
	number
	Note string
}

type takenOver struct {
	time.Time
	Note string
}

type onlyTime struct{ time.Time }

type tagged struct {
	A string `json:"x"`
	B string `json:"x"`
}

type left struct{ ID string }
type right struct{ ID string }

type both struct {
	left
	right
}

type shadowed struct {
	left
	ID string
}

type halfWritten struct{ n int }

func (halfWritten) MarshalJSON() ([]byte, error) { return nil, nil }

type halfRead struct{ n int }

func (*halfRead) UnmarshalText([]byte) error { return nil }

type mixed struct{ n int }

func (mixed) MarshalJSON() ([]byte, error) { return nil, nil }
func (*mixed) UnmarshalText([]byte) error  { return nil }

//flow:step
func unexported(ctx context.Context, a account) error { return nil }

//flow:step
func embedded(ctx context.Context, a outer, b pointerEmbedded, c lostEmbedded, d takenOver, e onlyTime) error {
	return nil
}

//flow:step
func ambiguous(ctx context.Context, a tagged, b both, c shadowed) error { return nil }

//flow:step
func custom(ctx context.Context, a halfWritten, b halfRead, c mixed) error { return nil }

//flow:step
func values(ctx context.Context, n big.Int, p *big.Int, list []big.Int, link url.URL) error {
	return nil
}
