//go:build !race

package memstore_test

// slack is added to the bounds on allocations.
const slack = 0
