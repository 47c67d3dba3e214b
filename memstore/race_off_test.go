//go:build !race

package memstore_test

// slack is added to the limits of allocations.
const slack = 0
