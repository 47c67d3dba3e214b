// Package types has a common name.
package types

// T is a type.
type T struct{ N int }

// Key is the key of a map.
type Key string

// List is generic.
type List[E any] struct{ Items []E }
