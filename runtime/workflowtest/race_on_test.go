//go:build race

package workflowtest_test

import "time"

// month is the maximum real time of 30 virtual days with 50 waits.
const month = 2 * time.Second
