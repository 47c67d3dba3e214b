//go:build !unix

package speed

import (
	"os/exec"
	"time"
)

// cpuTime returns 0, because it is not implemented on this platform.
func cpuTime() (time.Duration, error) { return 0, nil }

// apart does nothing, because this platform has no process groups.
func apart(*exec.Cmd) {}
