package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// childEnv is the environment variable that selects the role of a child process. The test binary
// implements all roles.
const childEnv = "SQLITESTORE_TEST_ROLE"

// roles contains the main functions of child processes by role.
var roles = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := roles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is a child process with a role.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startChild starts a child process. The cleanup of the test kills the process if it has not ended.
func startChild(t testing.TB, role string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails if the process has ended
		_ = cmd.Wait()         // fails if the process was killed
	})
	return c
}

// line returns the next line that the process prints.
func (c *child) line() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("the process ended without printing what was expected: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// rest returns all further lines that the process prints until it ends.
func (c *child) rest() []string {
	var lines []string
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	return lines
}

// say sends a line to the standard input of the process.
func (c *child) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// wait waits until the process ends without an error.
func (c *child) wait() {
	c.t.Helper()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("the process ended badly: %v", err)
	}
}

// kill ends the process like kill -9, and waits until it has ended.
func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // the error reports that the process was killed
}

var (
	orders  = store.Route{Queue: "default", Workflow: "orders.fulfil"}
	refunds = store.Route{Queue: "default", Workflow: "orders.refund"}
	routes  = []store.Route{orders, refunds}
)

const ttl = 30 * time.Second

func openStore(t testing.TB, path string, clock store.Clock) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.OpenWith(path, sqlitestore.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newLog returns the log of a run that does not exist in a store.
func newLog(clock store.Clock) *storetest.Log {
	return newLogOf(event.NewRunID(clock.Now(), event.RandomSlot()), clock)
}

func newLogOf(run event.RunID, clock store.Clock) *storetest.Log {
	return storetest.NewLog(&storetest.IDs{}, clock, run, event.Spec{Workflow: orders.Workflow, Queue: orders.Queue})
}

// start creates n runs and returns their logs.
func start(t testing.TB, s store.Store, n int) []*storetest.Log {
	t.Helper()
	var logs []*storetest.Log
	var creates []store.Create
	for range n {
		l := newLog(s.Clock())
		logs = append(logs, l)
		creates = append(creates, l.Create())
	}
	_, err := s.Create(testContext(t), creates)
	check(t, err)
	return logs
}

func openSession(t testing.TB, s store.Store, id store.SessionID) {
	t.Helper()
	check(t, s.OpenSession(testContext(t), store.Session{ID: id, Worker: "test", TTL: ttl, Routes: routes}))
}

func claim(t testing.TB, s store.Store, session store.SessionID, limit int) []store.ClaimedRun {
	t.Helper()
	got, err := s.Claim(testContext(t), claimOf(session, limit))
	check(t, err)
	return got.Runs
}

func claimOf(session store.SessionID, limit int) store.Claim {
	return store.Claim{Session: session, Token: event.NewToken(), Routes: routes, Max: limit}
}

// verify fails the test if an invariant of the store is violated.
func verify(t testing.TB, s *sqlitestore.Store) *store.Snapshot {
	t.Helper()
	snap, err := s.Inspect(testContext(t))
	check(t, err)
	for _, f := range fsck.Check(snap) {
		t.Errorf("fsck: %v", f)
	}
	return snap
}

// files returns the names of the files beside the database.
func files(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
