//go:build !linux && !darwin

package db

import "os"

// On other systems, machines and files cannot be identified. The end of a process cannot be proven,
// and only the lease decides.

func bootID() string { return "" }

func localFileSystem(string) bool { return false }

func inode(os.FileInfo) string { return "" }

// InPlace reports whether the path leads to the file that was opened.
func (f *File) InPlace() (bool, error) {
	info, err := os.Stat(f.Path)
	return err == nil && os.SameFile(info, f.info), err
}
