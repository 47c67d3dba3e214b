//go:build unix

package harm

import (
	"os"
	"os/exec"
	"syscall"
)

// detach prevents signals of the terminal, such as Ctrl-C, from reaching the process. The program
// itself decides when the process ends.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func interrupt(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
