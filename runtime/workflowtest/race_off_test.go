//go:build !race

package workflowtest_test

import "time"

// month bounds the real time of 30 virtual days with 50 waits.
const month = 50 * time.Millisecond
