// Package money has a type that can be copied: its methods need nothing else.
package money

import (
	"fmt"
	"strconv"
)

// Amount is a number of cents.
type Amount struct{ cents int64 }

// Of returns an amount.
func Of(cents int64) Amount { return Amount{cents} }

// String returns it with its point.
func (a Amount) String() string { return fmt.Sprintf("%d.%02d", a.cents/100, a.cents%100) }

// MarshalText writes the cents.
func (a Amount) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, a.cents, 10), nil }

// UnmarshalText reads them.
func (a *Amount) UnmarshalText(text []byte) (err error) {
	a.cents, err = strconv.ParseInt(string(text), 10, 64)
	return err
}
