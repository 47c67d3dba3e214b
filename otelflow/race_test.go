//go:build race

package otelflow_test

// slack is the factor by which the allocations may exceed their bounds. The race detector allocates,
// and pools drop what they should keep.
const slack = 3
