// Package rates has a type that cannot be copied, because it is stored by a function: the
// client imports the package.
package rates

import (
	"fmt"
	"strconv"
)

// Rate is a percentage.
type Rate struct{ percent float64 }

// Of returns a rate.
func Of(percent float64) Rate { return Rate{percent} }

// MarshalText writes it with two digits.
func (r Rate) MarshalText() ([]byte, error) { return []byte(text(r.percent)), nil }

// UnmarshalText reads it.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	r.percent, err = strconv.ParseFloat(string(text), 64)
	return err
}

func text(percent float64) string { return fmt.Sprintf("%.2f", percent) }
