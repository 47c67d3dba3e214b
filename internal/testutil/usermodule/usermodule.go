// Package usermodule creates modules like those of users, for tests of tools that read such
// modules.
package usermodule

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/flock"
)

const path = "github.com/flowgen/flowgen"

// New creates the module example.com/user with the given files and returns its directory. The
// module requires this module in its current state.
func New(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := Directory(t)
	Write(t, dir, "go.mod", GoMod(t))
	sum, err := os.ReadFile(filepath.Join(Root(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	Write(t, dir, "go.sum", string(sum))
	for name, text := range files {
		Write(t, dir, name, text)
	}
	return dir
}

// inUse contains the numbers of the directories in use. The next module gets the lowest free
// number.
var inUse struct {
	sync.Mutex
	root  string
	lock  *flock.Flock // locks root until the process ends
	taken map[int]bool
}

// takeRoot locks and returns a directory for the modules of this process. The name of the directory
// depends only on the package under test and a number. Later executions of the same tests can
// therefore use the build cache. Processes that test a package at the same time get different
// numbers.
func takeRoot() (string, *flock.Flock, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("usermodule-%s-%d-%08x", filepath.Base(dir), os.Getuid(), crc32.ChecksumIEEE([]byte(dir)))
	for n := 0; ; n++ {
		root := filepath.Join(os.TempDir(), fmt.Sprint(name, "-", n))
		lock := flock.New(root + ".lock")
		locked, err := lock.TryLock()
		if err != nil {
			return "", nil, fmt.Errorf("lock %s: %w", root, err)
		}
		if locked {
			return root, lock, os.RemoveAll(root) // a killed process may have left the directory
		}
	}
}

// Directory returns an empty directory, which is removed at the end of the test. Later tests get
// the same path. The build cache depends on the path, so it contains their files if the content is
// the same.
func Directory(t testing.TB) string {
	t.Helper()
	inUse.Lock()
	defer inUse.Unlock()
	if inUse.root == "" {
		root, lock, err := takeRoot()
		if err != nil {
			t.Fatal(err)
		}
		inUse.root, inUse.lock, inUse.taken = root, lock, map[int]bool{}
	}
	number := 0
	for inUse.taken[number] {
		number++
	}
	dir := filepath.Join(inUse.root, strconv.Itoa(number))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	inUse.taken[number] = true
	t.Cleanup(func() {
		inUse.Lock()
		defer inUse.Unlock()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
			return // the number remains in use, because the directory exists
		}
		delete(inUse.taken, number)
		_ = os.Remove(inUse.root) // succeeds for the last module; the next module creates the directory again
	})
	return dir
}

// GoMod returns the content of go.mod for a user module. It contains the requirements of this
// module, and a requirement on this module in its current directory.
func GoMod(t testing.TB) string {
	t.Helper()
	root := Root(t)
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(own), "module "+path, "module example.com/user", 1) + "\nrequire " + path + " v0.0.0\n\nreplace " + path + " => " + root + "\n"
}

// Root returns the root directory of this module. The test must be executed in the root directory
// or below it.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module "+path+"\n") {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("the test is not executed in the module")
		}
		dir = up
	}
}

// Write writes a file of a module. It creates the directory of the file.
func Write(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // it has source, in a directory of the test
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // as above
		t.Fatal(err)
	}
}
