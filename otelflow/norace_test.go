//go:build !race

package otelflow_test

// slack is the factor by which the allocations may exceed their bounds.
const slack = 1
