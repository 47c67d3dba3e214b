//go:build race

package speed

// slack multiplies the bounds on allocations, because pools drop objects under the race detector.
const slack = 1.5
