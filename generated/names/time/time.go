// Package time has the name of one in the standard library.
package time

// Time is another.
type Time struct{ A int }

// T is embedded.
type T struct{ A int }
