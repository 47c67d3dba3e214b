//go:build !linux

package orders

// System is another type elsewhere.
type System int
