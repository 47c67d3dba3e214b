// Package stack makes goroutines begin with a sufficiently large stack.
package stack

// Grow gives the goroutine a stack that suffices for most steps and workflows and their JSON, while
// there is hardly anything to copy. Growing later costs as much as the rest of an attempt.
func Grow() { frame(-1) }

// frame has a large frame that it never uses, because unused memory is not cleared.
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
