//go:build !unix

package harm

import (
	"errors"
	"os"
	"os/exec"
)

func detach(*exec.Cmd) {}

func suspend(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }

func interrupt(p *os.Process) error { return p.Kill() }
