// Package types has the name of another, and a path that does not tell it.
package types

// T is a type.
type T struct{ N int }
