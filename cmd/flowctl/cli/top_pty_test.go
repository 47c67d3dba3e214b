//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// screen is a flowctl process with a pseudoterminal.
type screen struct {
	*testing.T
	cmd      *exec.Cmd
	terminal *os.File
	tty      *os.File
	before   *term.State

	mu   sync.Mutex
	read bytes.Buffer
	came chan struct{}
	done chan struct{}
}

// onScreen starts flowctl on the store of the shop with a pseudoterminal, without colors.
func (s *shop) onScreen(args ...string) *screen {
	s.t.Helper()
	return s.onScreenAt(append([]string{"--store", s.url}, args...)...)
}

// onScreenAt is like onScreen, but args contains all arguments.
func (s *shop) onScreenAt(args ...string) *screen {
	s.t.Helper()
	terminal, tty, err := pty.Open()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		s.t.Fatal(err)
	}
	before, err := term.GetState(tty.Fd())
	if err != nil {
		s.t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	x := &screen{T: s.t, terminal: terminal, tty: tty, before: before, came: make(chan struct{}, 1), done: make(chan struct{})}
	x.cmd = exec.Command(program, args...)
	x.cmd.Env = append(os.Environ(), isFlowctl+"=1", "NO_COLOR=1", "TERM=xterm-256color")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go x.copy()
	s.t.Cleanup(func() {
		if x.cmd.ProcessState == nil {
			_ = x.cmd.Process.Kill()
			_ = x.cmd.Wait()
		}
		_ = tty.Close()
		_ = terminal.Close()
		<-x.done
	})
	return x
}

// copy records the output to the terminal.
func (x *screen) copy() {
	defer close(x.done)
	b := make([]byte, 4096)
	for {
		n, err := x.terminal.Read(b)
		x.mu.Lock()
		x.read.Write(b[:n])
		x.mu.Unlock()
		select {
		case x.came <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// sent returns the output to the terminal from a position on.
func (x *screen) sent(from int) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.read.String()[from:]
}

// until waits until the output after a position contains text. It returns the length of the whole
// output.
func (x *screen) until(from int, text string) int {
	x.Helper()
	deadline := time.After(30 * time.Second)
	for !strings.Contains(x.sent(from), text) {
		select {
		case <-x.came:
		case <-deadline:
			x.Fatalf("the terminal was not sent %q, but\n%q", text, x.sent(from))
		}
	}
	return from + len(x.sent(from))
}

// press sends keys and waits for the text to appear.
func (x *screen) press(keys, text string) {
	x.Helper()
	from := len(x.sent(0))
	x.types(keys)
	x.until(from, text)
}

// ends waits for the end of the process, and checks its exit code and that the terminal was
// restored.
func (x *screen) ends(code int) {
	x.Helper()
	x.exits(code)
	x.until(0, "\x1b[?1049l") // The sequence leaves the alternate screen.
	x.until(0, "\x1b[?25h")   // The sequence shows the cursor.
	after, err := term.GetState(x.tty.Fd())
	if err != nil {
		x.Fatal(err)
	}
	if fmt.Sprint(after) != fmt.Sprint(x.before) {
		x.Errorf("the terminal is left in another state: %+v, before %+v", after, x.before)
	}
}

func TestOPS1_TopWorksAtATerminal(t *testing.T) {
	s := open(t)
	s.work(func(ctx context.Context, c *workflow.Client) {
		if _, err := orders.Start(ctx, c, "good", workflow.WithQueue(hostileQueue), workflow.WithID("x\x1b[2J\u202e")); err != nil {
			t.Fatal(err)
		}
	})
	x := s.onScreen("top", "status:waiting")
	x.until(0, "order-wait")
	x.press("?", "the next list")
	x.press("?", "order-wait")
	x.press("\r", "shop.ship") // The output of flowctl show contains this text.
	x.press("p", "pause "+s.runs["wait"]+"? [y/N]")
	x.press("y", ": done")
	x.press("\x1b", "order-wait")
	x.press("/", "enter: use the filter")
	x.press("\x15queue:"+"nowhere\r", "no runs")
	x.press("/", "enter: use the filter")
	x.press("\x15\r", "order-bad")
	x.press("\t", "shop.order/shop.ship")
	x.press("\t", "nobody!")
	x.press("\t", "WORKER")
	x.press("\t", "IN USE")
	x.press("\t", "PER SECOND")
	s.work(func(ctx context.Context, c *workflow.Client) { paused(ctx, t, c, s.runs["wait"]) }) // The pause that the user requested is kept.
	if _, err := x.terminal.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	x.ends(0)
	if all := x.sent(0); strings.Contains(all, "\x1b[31m") || strings.Contains(all, "\x1b[38") || strings.ContainsRune(all, '\u202e') || !strings.Contains(all, `x\u001b[2J\u202e`) {
		t.Errorf("colours in spite of NO_COLOR, or what a terminal obeys:\n%q", all)
	}
}

func TestOPS1_TopLeavesTheTerminalAsItWas(t *testing.T) {
	s := open(t)
	for what, end := range map[string]struct {
		do   func(x *screen) error
		code int
	}{
		"SIGTERM": {func(x *screen) error { return x.cmd.Process.Signal(syscall.SIGTERM) }, 130},
		"SIGINT":  {func(x *screen) error { return x.cmd.Process.Signal(syscall.SIGINT) }, 130},
		"ctrl+c":  {func(x *screen) error { _, err := x.terminal.WriteString("\x03"); return err }, 0},
	} {
		t.Run(what, func(t *testing.T) {
			on := *s
			on.t = t
			x := on.onScreen("top")
			x.until(0, "order-wait")
			if err := end.do(x); err != nil {
				t.Fatal(err)
			}
			x.ends(end.code)
		})
	}
}

func TestOPS1_TopWantsATerminal(t *testing.T) {
	s := open(t)
	s.wants(2, nil, []string{"needs a terminal", "flowctl runs --watch"}, "top")
	x := s.onScreen("top", "tag:orders") // The argument is not a valid filter.
	if err := x.cmd.Wait(); err == nil || x.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("a filter that is none: %v", err)
	}
}

// The test proves that commands other than top send no queries to a terminal. Package quiet
// prevents the queries.
func TestOPS1_CommandsAskTheTerminalNothing(t *testing.T) {
	s := open(t)
	x := s.onScreen("runs", "-o", "name")
	x.until(0, s.runs["good"])
	if err := x.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := x.sent(0); strings.Contains(got, "\x1b") {
		t.Errorf("the terminal was sent %q", got)
	}
}

// The test proves that top shows the last results during an outage, and continues by itself after
// it.
func TestOPS1_TopOutlivesAnOutage(t *testing.T) {
	s := open(t)
	first := s.serve("127.0.0.1:0")
	x := s.onScreenAt("--server", first.url, "top")
	at := x.until(0, "order-wait")
	first.kill(t)
	at = x.until(at, "no answer for")
	s.serve(strings.TrimPrefix(first.url, "http://"))
	x.until(at, "flowctl top  as of")
	if _, err := x.terminal.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	x.ends(0)
}
