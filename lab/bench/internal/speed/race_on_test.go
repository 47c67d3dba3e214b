//go:build race

package speed

// slack multiplies the bounds on allocations. It is greater than 1 because pools drop objects at
// random under the race detector.
const slack = 1.5
