package survival

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// stall stops a worker with SIGSTOP while the worker does not hold the write lock of the file. The
// lock of a stopped worker would block all other processes.
func (s *site) stall(p *process) {
	s.t.Helper()
	conn := s.connect()
	defer func() { _ = conn.Close() }()
	for {
		p.signal(syscall.SIGSTOP)
		for !p.stopped() {
		}
		err := sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil)
		if err == nil {
			err = sqlitex.ExecuteTransient(conn, "ROLLBACK", nil)
		}
		switch {
		case err == nil:
			return
		case sqlite.ErrCode(err).ToPrimary() != sqlite.ResultBusy:
			s.t.Fatal(err)
		}
		p.signal(syscall.SIGCONT)
	}
}

// stopped reports whether all threads of the process are stopped.
func (p *process) stopped() bool {
	p.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // the thread has ended, so it is not running
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if _, state, _ := bytes.Cut(stat, []byte(") ")); !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// connect opens the file without the store. The connection does not wait for locks.
func (s *site) connect() *sqlite.Conn {
	s.t.Helper()
	conn, err := sqlite.OpenConn(s.db, sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetBusyTimeout(0)
	return conn
}

// TestSTORE1_WorkerTellsThatTheFileIsLockedAndGoesOn proves that a worker waits, and reports that
// it does, while another process holds the write lock of the file. No run fails.
func TestSTORE1_WorkerTellsThatTheFileIsLockedAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	early := s.worker()
	s.result(s.start(Plain), "a")
	conn := s.connect()
	defer func() { _ = conn.Close() }()
	for sqlitex.ExecuteTransient(conn, "BEGIN IMMEDIATE", nil) != nil {
	}
	late := s.worker()
	for _, w := range []*process{early, late} {
		w.wait(`"store does not answer: waiting"`)
	}
	if err := sqlitex.ExecuteTransient(conn, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*process{early, late} {
		w.wait(`"store answers again"`)
	}
	s.result(s.start(Plain), "a")
	s.sound()
}
