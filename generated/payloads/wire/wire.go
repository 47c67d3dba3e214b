// Package wire has types that others can name only through an alias.
package wire

type hidden struct{ N int }

// Visible is the only name of its type.
type Visible = hidden

// Page is generic.
type Page[T any] struct {
	Items []T
	Next  *Page[T]
}

// Set is a generic alias.
type Set[T comparable] = map[T]struct{}
