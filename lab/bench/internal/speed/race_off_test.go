//go:build !race

package speed

// slack multiplies the bounds on allocations. It is greater only under the race detector.
const slack = 1.0
