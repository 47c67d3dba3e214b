package db

import (
	"sync"

	"golang.org/x/sys/unix"
)

// bootID identifies the current boot of the kernel; empty if unknown.
var bootID = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})

// localFileSystem reports whether this kernel alone grants the locks of files in dir.
func localFileSystem(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.MNT_LOCAL != 0
}
