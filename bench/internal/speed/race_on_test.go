//go:build race

package speed

// slack is what bounds on allocations are multiplied with: the race detector lets
// pools forget.
const slack = 1.5
