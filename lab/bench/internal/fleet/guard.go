package fleet

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// Guard kills the processes of the experiment when this program ends, even if it is killed. It is a
// process that reads the IDs of the others from a pipe until the pipe is closed.
type Guard struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	in  io.WriteCloser
}

// NewGuard starts a guard. command is the command line of this program with arguments that make it
// call [Watch].
func NewGuard(command ...string) (*Guard, error) {
	cmd := exec.Command(command[0], command[1:]...)
	detach(cmd)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the processes: %w", err)
	}
	return &Guard{cmd: cmd, in: in}, nil
}

// add and remove fail only if the guard has ended, which does not affect other processes.
func (g *Guard) add(pid int)    { g.tell("+", pid) }
func (g *Guard) remove(pid int) { g.tell("-", pid) }

func (g *Guard) tell(sign string, pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = fmt.Fprintf(g.in, "%s%d\n", sign, pid)
}

// Close ends the guard and the processes that it still guards.
func (g *Guard) Close() error {
	_ = g.in.Close()
	return g.cmd.Wait()
}

// Watch is the main loop of a guard. It reads process IDs, each after a plus or a minus, and at the
// end of the input kills those that were added and not removed.
func Watch(in io.Reader) {
	guarded := map[int]bool{}
	for s := bufio.NewScanner(in); s.Scan(); {
		number, gone := strings.CutPrefix(s.Text(), "-")
		if pid, err := strconv.Atoi(strings.TrimPrefix(number, "+")); err == nil && pid > 1 {
			guarded[pid] = !gone
		}
	}
	for pid, there := range guarded {
		if p, err := os.FindProcess(pid); there && err == nil {
			_ = p.Kill() // it may have ended
		}
	}
}
