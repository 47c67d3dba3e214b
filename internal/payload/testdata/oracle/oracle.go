// Package oracle holds types with a value each in which nothing is zero.
package oracle

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// Values holds a value of every type of this package by the type's name.
var Values = map[string]any{
	"WrongMarshal":     WrongMarshal{1},
	"WrongMarshalLost": WrongMarshalLost{1},
	"WrongText":        WrongText{1},
	"Plain":            Plain{1, "a", []byte("b"), 1.5, true},
	"Unexported":       Unexported{1, 2},
	"Skipped":          Skipped{1},
	"Embeds":           Embeds{Inner{1}, 2},
	"EmbedsLower":      EmbedsLower{lower{1}, 2},
	"EmbedsPointer":    EmbedsPointer{&Inner{1}, 2},
	"EmbedsLowerPtr":   EmbedsLowerPtr{&lower{1}, 2},
	"EmbedsLowerInt":   EmbedsLowerInt{3, 2},
	"EmbedsTagged":     EmbedsTagged{Inner{1}, 2},
	"TakenOver":        TakenOver{time.Unix(1, 0).UTC(), 2},
	"OnlyTime":         OnlyTime{time.Unix(1, 0).UTC()},
	"TwiceTagged":      TwiceTagged{1, 2},
	"TagBeatsName":     TagBeatsName{1, 2},
	"OuterWins":        OuterWins{Inner{1}, 2},
	"Ambiguous":        Ambiguous{Inner{1}, Other{2}},
	"Diamond":          Diamond{Embeds{Inner{1}, 2}, EmbedsTwin{Inner{3}}},
	"Generic":          Generic[Inner]{Inner{1}, &Generic[Inner]{V: Inner{2}}},
	"GenericLossy":     GenericLossy{Generic[lossy]{lossy{1}, nil}},
	"NamedPointer":     NamedPointer{&lower{1}},
	"IntKeys":          IntKeys{1: "a"},
	"StructKeys":       StructKeys{Inner{1}: "a"},
	"AddrKeys":         AddrKeys{netip.MustParseAddr("::1"): "a"},
	"BigValue":         BigValue{*big.NewInt(5)},
	"BigPointer":       BigPointer{big.NewInt(5)},
	"BigSlice":         BigSlice{*big.NewInt(5)},
	"BigMap":           BigMap{"a": *big.NewInt(5)},
	"BigArray":         BigArray{*big.NewInt(5)},
	"BigBehindPointer": BigBehindPointer{&BigValue{*big.NewInt(5)}},
	"Anything":         Anything{Inner{1}},
	"Raw":              Raw{json.RawMessage(`{"a":1}`)},
	"Link":             Link{url.URL{Host: "a", User: url.User("b")}},
	"Complex":          Complex{1i},
	"TextValue":        TextValue{Text{5}},
	"Recursive":        Recursive{1, &Recursive{2, nil}},
	"Channel":          Channel{make(chan int)},
}

type (
	Plain struct {
		A int
		B string
		C []byte
		D float64
		E bool
	}
	Unexported struct {
		A int
		b int
	}
	Skipped struct {
		A int
	}
	Inner  struct{ A int }
	Other  struct{ A int }
	lower  struct{ A int }
	number int
	Embeds struct {
		Inner
		B int
	}
	EmbedsLower struct {
		lower
		B int
	}
	EmbedsPointer struct {
		*Inner
		B int
	}
	EmbedsLowerPtr struct {
		*lower
		B int
	}
	EmbedsLowerInt struct {
		number
		B int
	}
	EmbedsTagged struct {
		Inner `json:"inner"`
		A     int
	}
	TakenOver struct {
		time.Time
		B int
	}
	OnlyTime    struct{ time.Time }
	TwiceTagged struct {
		A int `json:"x"`
		B int `json:"x"`
	}
	TagBeatsName struct {
		A int `json:"B"`
		B int
	}
	OuterWins struct {
		Inner
		A int
	}
	Ambiguous struct {
		Inner
		Other
	}
	EmbedsTwin struct{ Inner }
	Diamond    struct {
		Embeds
		EmbedsTwin
	}
	Generic[T any] struct {
		V    T
		Next *Generic[T]
	}
	lossy            struct{ n int }
	GenericLossy     struct{ G Generic[lossy] }
	NamedPointer     struct{ P *lower }
	IntKeys          map[int]string
	StructKeys       map[Inner]string
	AddrKeys         map[netip.Addr]string
	BigValue         struct{ N big.Int }
	BigPointer       struct{ N *big.Int }
	BigSlice         []big.Int
	BigMap           map[string]big.Int
	BigArray         [1]big.Int
	BigBehindPointer struct{ P *BigValue }
	Anything         struct{ V any }
	Raw              struct{ V json.RawMessage }
	Link             struct{ URL url.URL }
	Complex          struct{ V complex128 }
	Text             struct{ n int }
	TextValue        struct{ V Text }
	Recursive        struct {
		A    int
		Next *Recursive
	}
	Channel struct{ C chan int }
)

// MarshalText returns the number.
func (t Text) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(t.n), 10), nil }

// UnmarshalText reads it.
func (t *Text) UnmarshalText(text []byte) (err error) {
	t.n, err = strconv.Atoi(string(text))
	return err
}

// WrongMarshal has methods that encoding/json does not call: they have other
// signatures.
type WrongMarshal struct{ A int }

// MarshalJSON lacks an error.
func (WrongMarshal) MarshalJSON() []byte { return nil }

// WrongMarshalLost would need the methods that it seems to have.
type WrongMarshalLost struct{ a int }

// MarshalJSON returns text.
func (WrongMarshalLost) MarshalJSON() (string, error) { return "", nil }

// UnmarshalJSON takes text.
func (*WrongMarshalLost) UnmarshalJSON(string) error { return nil }

// WrongText writes itself as text, but does not read itself.
type WrongText struct{ A int }

// MarshalText is right.
func (w WrongText) MarshalText() ([]byte, error) { return []byte("x"), nil }

// UnmarshalText returns too much.
func (*WrongText) UnmarshalText([]byte) (int, error) { return 0, nil }
