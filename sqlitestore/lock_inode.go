//go:build linux || darwin

package sqlitestore

import (
	"fmt"
	"os"
	"syscall"
)

// inode names a file for as long as somebody has it open.
func inode(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x:%x", st.Dev, st.Ino)
}
