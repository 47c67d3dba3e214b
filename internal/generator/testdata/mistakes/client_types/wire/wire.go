// Package wire is imported, because Raw is stored by a function.
package wire

// Name is text.
type Name = string

// Raw is text.
type Raw string

// MarshalText writes it.
func (r Raw) MarshalText() ([]byte, error) { return text(r), nil }

// UnmarshalText reads it.
func (r *Raw) UnmarshalText(b []byte) error { *r = Raw(b); return nil }

func text(r Raw) []byte { return []byte(r) }
