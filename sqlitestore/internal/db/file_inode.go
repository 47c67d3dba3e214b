//go:build linux || darwin

package db

import (
	"fmt"
	"os"
	"syscall"
)

// inode returns the identity of a file. It is unique as long as any process has the file open.
func inode(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x:%x", st.Dev, st.Ino)
}

// InPlace reports whether the path leads to the file that was opened. It is called after each
// commit and therefore avoids os.Stat, which allocates its result.
func (f *File) InPlace() (bool, error) {
	was, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return true, nil
	}
	var now syscall.Stat_t
	for {
		err := syscall.Stat(f.Path, &now)
		if err != syscall.EINTR { //nolint:errorlint // a bare number
			return err == nil && now.Dev == was.Dev && now.Ino == was.Ino, err
		}
	}
}
