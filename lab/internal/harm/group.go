// Package harm is the harness of the programs that disturb a fleet. It starts the workers, which
// run this program in another role, and the servers of their store. It disturbs them on a schedule,
// and records violations of promises. Package record stores the executions of steps.
//
// Read the files in this order: group.go (processes), redis.go and sentinel.go (servers), site.go
// (the store), role.go (the worker process), experiment.go, schedule.go (faults as data),
// command.go (the programs).
package harm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Group is a group of processes whose output is written to files in a directory. All processes of
// the group end when this program ends for any reason, even if this program is killed. A shell
// process, the guard, ensures this. It reads the IDs of the processes from a pipe until the pipe is
// closed, and then kills the remaining processes.
type Group struct {
	Dir string

	guard *exec.Cmd
	mu    sync.Mutex
	in    io.WriteCloser
	all   []*Process
}

// guard is the shell script of the guard. It reads process IDs. A plus before an ID adds the
// process, and a minus removes it.
const guard = `all=
while read -r sign pid; do
	left=
	for p in $all; do [ "$p" = "$pid" ] || left="$left $p"; done
	all=$left
	[ "$sign" = - ] || all="$all $pid"
done
[ -z "$all" ] || kill -9 $all`

// NewGroup returns an empty group. The caller must close it.
func NewGroup(dir string) (*Group, error) {
	g := &Group{Dir: dir, guard: exec.Command("sh", "-c", guard)}
	detach(g.guard)
	var err error
	if g.in, err = g.guard.StdinPipe(); err == nil {
		err = g.guard.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the processes: %w", err)
	}
	return g, nil
}

// note adds a process to the guard or removes it. An error means that the guard has ended, which
// does not affect the processes.
func (g *Group) note(sign string, pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.in, "%s %d\n", sign, pid)
}

// Close kills the remaining processes of the group.
func (g *Group) Close() {
	_ = g.in.Close()
	_ = g.guard.Wait() // Wait fails if a process ended before the guard killed it.
	for _, p := range g.all {
		_ = p.cmd.Process.Kill() // This has an effect only if the guard itself was killed.
		<-p.done
	}
}

// Process is a process that a group has started.
type Process struct {
	// Name identifies the process in reports.
	Name string
	// Log is the path of the file with the output.
	Log string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // error of the exit; set before done is closed

	mu       sync.Mutex
	expected bool // this program has requested the end of the process
}

// Spawn starts a process with the given command. It appends the output of the process to a file
// named after the process.
func (g *Group) Spawn(name string, command ...string) (*Process, error) {
	p := &Process{Name: name, Log: filepath.Join(g.Dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // The process has its own descriptor of the file.
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	detach(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	g.note("+", p.PID())
	g.mu.Lock()
	g.all = append(g.all, p)
	g.mu.Unlock()
	go func() {
		p.err = p.cmd.Wait()
		g.note("-", p.PID())
		close(p.done)
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the exit code of a process that has ended. It returns -1 if the process was
// killed.
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
	_ = p.cmd.Process.Kill() // Kill fails if the process has ended.
	<-p.done
}

// Stall suspends the process with SIGSTOP until d has passed or ctx ends.
func (p *Process) Stall(ctx context.Context, d time.Duration) error {
	err := suspend(p.cmd.Process)
	Pause(ctx, d)
	if err := errors.Join(err, resume(p.cmd.Process)); err != nil {
		return fmt.Errorf("suspend %s: %w", p.Name, err)
	}
	return nil
}

// ErrStuck is returned if a process did not end when requested and was killed.
var ErrStuck = errors.New("it has not ended and was killed")

// Stop requests the end of the process. It kills the process if it has not ended after the time
// patience. It returns an error unless the process exited cleanly.
func (p *Process) Stop(patience time.Duration) error {
	p.expect()
	_ = resume(p.cmd.Process)    // This fails if the process has ended.
	_ = interrupt(p.cmd.Process) // This fails if the process has ended.
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

// Pause waits for the duration d. It returns false if ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool { return Rest(ctx, d) == nil }

// Rest waits for the duration d. If ctx ends before that, Rest returns the cause.
func Rest(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
