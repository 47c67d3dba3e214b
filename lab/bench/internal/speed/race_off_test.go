//go:build !race

package speed

// slack multiplies the bounds on allocations.
const slack = 1.0
