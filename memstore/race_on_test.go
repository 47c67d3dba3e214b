//go:build race

package memstore_test

// slack is added to the limits of allocations, because the race detector allocates.
const slack = 1
