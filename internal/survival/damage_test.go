package survival

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// flip inverts a byte in a frame of the first run. It writes directly to the file. A second call
// restores the byte.
func (s *site) flip(frame int) {
	s.t.Helper()
	conn, err := sqlite.OpenConn(s.db, sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var data []byte
	err = sqlitex.Execute(conn, "SELECT data FROM frames WHERE n = ? AND run = (SELECT min(run) FROM frames)", &sqlitex.ExecOptions{
		Args: []any{frame},
		ResultFunc: func(stmt *sqlite.Stmt) error {
			data = make([]byte, stmt.ColumnLen(0))
			stmt.ColumnBytes(0, data)
			return nil
		},
	})
	if err != nil || len(data) == 0 {
		s.t.Fatalf("read frame %d: %d bytes, %v", frame, len(data), err)
	}
	data[len(data)/2] ^= 0xff
	if err := sqlitex.Execute(conn, "UPDATE frames SET data = ? WHERE n = ? AND run = (SELECT min(run) FROM frames)", &sqlitex.ExecOptions{Args: []any{data, frame}}); err != nil {
		s.t.Fatal(err)
	}
}

func TestEV1_DamagedLogBlocksTheRunAndNothingIsLostWhenItIsMended(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, run := s.underWay()
	victim.kill()

	s.flip(2)
	finder := s.worker()
	finder.wait("run is blocked")
	info := s.info(run, workflow.StatusBlocked)
	if !strings.Contains(info.Blocked, "frame 2 of the log of run "+string(run.ID())) || !strings.Contains(info.Blocked, "checksum") {
		t.Errorf("the reason is %q, want the frame and the damage", info.Blocked)
	}
	var last error
	for _, err := range run.Events(s.ctx()) {
		last = err
	}
	var damaged *workflow.EventError
	if !errors.As(last, &damaged) || damaged.Frame != 2 || !errors.Is(last, event.ErrCorrupt) {
		t.Errorf("following ends with %v, want an EventError about frame 2", last)
	}
	s.result(s.start(Plain), "a") // other runs are not affected

	s.flip(2)
	finder.signal(syscall.SIGTERM)
	_ = finder.exited()
	s.open()
	s.worker() // the session that blocked the run has ended, so a worker with the same code gets the run
	s.result(run, "ab2")
	s.sound()
}
