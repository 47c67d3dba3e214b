//go:build !unix

package speed

import "time"

// cpuTime returns 0 because CPU time is not measured on this platform.
func cpuTime() (time.Duration, error) { return 0, nil }
