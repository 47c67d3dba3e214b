// Package stack lets goroutines begin with a stack that will do.
package stack

// Grow lets the goroutine have a stack on which most steps and workflows and their
// JSON have room, while there is hardly anything to be copied: later growing costs as
// much as the rest of an attempt.
func Grow() { frame(-1) }

// frame has a large frame, and never uses it: what is not used is not cleared.
//
//go:noinline
func frame(i int) byte {
	if i < 0 {
		return 0
	}
	var space [6 << 10]byte
	space[i] = 1
	return space[i/2]
}
