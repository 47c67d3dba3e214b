//go:build !race

package speed

// slack is what bounds on allocations are multiplied with.
const slack = 1.0
