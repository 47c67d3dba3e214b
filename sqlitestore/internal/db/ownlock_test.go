//go:build linux || darwin

package db

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLocks_TheOwnLockIsNotOpened proves that a store which probes the locks of all sessions opens no
// file for its own: it opens a pipe only while another process has the pipe open.
func TestLocks_TheOwnLockIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	holder := NewLocks(filepath.Join(dir, "runs.db"))
	id := holder.Identity()
	name := filepath.Join(dir, id[strings.LastIndexByte(id, ' ')+1:])
	check(t, os.Remove(name))
	check(t, syscall.Mkfifo(name, 0o600))
	ended := make(chan bool, 1)
	go func() { ended <- holder.Ended(id) }()
	select {
	case got := <-ended:
		if got {
			t.Error("the store that holds a lock was taken for ended")
		}
	case <-time.After(10 * time.Second):
		t.Error("Ended opens the lock file of its own store")
		f, err := os.OpenFile(name, os.O_RDWR, 0) // ends the goroutine
		check(t, err)
		<-ended
		check(t, f.Close())
	}
	check(t, holder.file.Unlock())
}
