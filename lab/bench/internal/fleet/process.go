package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Process is a process of the experiment. Its output is written to a file.
type Process struct {
	// Name is the name in reports.
	Name string
	// Log is the path of the output file.
	Log string

	guard *Guard
	cmd   *exec.Cmd
	done  chan struct{}
	err   error // exit error; set before done is closed

	mu       sync.Mutex
	expected bool // the program has requested its end
}

// Spawn starts a process. Its output is appended to a file in dir with the name of the process.
func Spawn(guard *Guard, dir, name string, command ...string) (*Process, error) {
	p := &Process{Name: name, Log: filepath.Join(dir, name+".log"), guard: guard, done: make(chan struct{})}
	out, err := os.OpenFile(p.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the process has its own descriptor
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	detach(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	guard.add(p.cmd.Process.Pid)
	go p.await()
	return p, nil
}

func (p *Process) await() {
	p.err = p.cmd.Wait()
	p.guard.remove(p.cmd.Process.Pid)
	close(p.done)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code of a process that has ended, or -1 if it was killed.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Crashed returns an error if the process has ended unexpectedly.
func (p *Process) Crashed() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.expected {
		return nil
	}
	return fmt.Errorf("%s ended by itself (%s), see %s", p.Name, p.cmd.ProcessState, p.Log)
}

func (p *Process) expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

// Kill ends the process with SIGKILL, even if it is suspended, and waits for its end. Further calls
// have no effect.
func (p *Process) Kill() {
	p.expect()
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.done
}

// Suspend stops the process with SIGSTOP until Resume.
func (p *Process) Suspend() error { return p.send("suspend", suspend) }

// Resume continues a suspended process.
func (p *Process) Resume() error { return p.send("resume", resume) }

func (p *Process) send(what string, signal func(*os.Process) error) error {
	if err := signal(p.cmd.Process); err != nil {
		return fmt.Errorf("%s %s: %w", what, p.Name, err)
	}
	return nil
}

// ErrStuck reports that a process did not end when requested.
var ErrStuck = errors.New("it has not ended and was killed")

// Stop requests the end of the process and kills it if it has not ended within patience. The error
// describes an unclean exit.
func (p *Process) Stop(patience time.Duration) error {
	p.expect()
	_ = resume(p.cmd.Process)    // fails if it has ended
	_ = interrupt(p.cmd.Process) // fails if it has ended
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("stop %s: %w, see %s", p.Name, p.err, p.Log)
		}
		return nil
	case <-late.C:
		p.Kill()
		return fmt.Errorf("stop %s: %w after %v, see %s", p.Name, ErrStuck, patience, p.Log)
	}
}
