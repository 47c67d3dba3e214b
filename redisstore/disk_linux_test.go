package redisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// TestSTORE4_RunsGoOnByThemselvesAfterAFullDisk proves that runs continue after the disk of the
// server was full. A limit on the file size has the same effect on the server as a full disk.
func TestSTORE4_RunsGoOnByThemselvesAfterAFullDisk(t *testing.T) {
	t.Parallel()
	server := redistest.StartBinary(t, patient(t), "--appendonly", "yes")
	o := newOutage(t, server.URL())
	var limit unix.Rlimit
	if err := unix.Prlimit(server.Pid(), unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	files := func(most uint64) {
		lower := unix.Rlimit{Cur: most, Max: limit.Max}
		if err := unix.Prlimit(server.Pid(), unix.RLIMIT_FSIZE, &lower, nil); err != nil {
			t.Error(err)
		}
	}
	o.through(func() {
		files(10 << 10)
		says(t, server, "aof_last_write_status:err")
		o.met(": MISCONF ")
		files(limit.Cur)
		says(t, server, "aof_last_write_status:ok")
	})
	o.done(true)
	if err := server.Client(t).Set(o.ctx, "later", "x", 0).Err(); err != nil {
		t.Error(err)
	}
	server.Kill()
	server.Restart(t)
	says(t, server, "loading:0\r\nasync_loading") // wait until the server has loaded its data
	sound(t, o.store)                             // the append-only file is valid
}

// patient returns the path of a redis-server command that ignores SIGXFSZ.
func patient(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "redis-server")
	script := fmt.Sprintf("#!/bin/sh\ntrap '' XFSZ\nexec %s \"$@\"\n", redistest.Binary(t))
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
