// Package tax computes taxes, with helpers of its own and of others.
package tax

import (
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/rate"
)

// Total returns an amount with its tax.
func Total(cents int, country string) int { return cents + cents*of(country)/100 }

func of(country string) int { return rate.Of(country) }

// A Table has rates that grow old.
type Table struct{ Made time.Time }

// Old reports whether the table is out of date.
func (t *Table) Old() bool { return time.Since(t.Made) > 24*time.Hour }

// Even and Odd call each other, and one of them the clock.
func Even(n int) bool {
	if n == 0 {
		return time.Now().IsZero()
	}
	return Odd(n - 1)
}

// Odd is the other half.
func Odd(n int) bool {
	if n == 0 {
		return false
	}
	return Even(n - 1)
}

// Newest returns the last item, or what has no place yet.
func Newest[T any](items []T, of func(T) time.Time) (newest T) {
	latest := time.Time{}
	for _, item := range items {
		if t := of(item); t.After(latest) && t.Before(time.Now()) {
			newest, latest = item, t
		}
	}
	return newest
}
