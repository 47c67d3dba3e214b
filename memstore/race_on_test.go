//go:build race

package memstore_test

// slack is added to the bounds on allocations: the race detector makes some of its own.
const slack = 1
