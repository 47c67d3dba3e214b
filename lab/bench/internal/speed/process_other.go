//go:build !unix

package speed

import "time"

// cpuTime returns 0, because it is not implemented on this platform.
func cpuTime() (time.Duration, error) { return 0, nil }
