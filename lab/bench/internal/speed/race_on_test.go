//go:build race

package speed

// slack multiplies the bounds on allocations: the race detector lets
// pools forget.
const slack = 1.5
