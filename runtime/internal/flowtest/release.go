//go:build !inmemory

package flowtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/flowgen/flowgen/runtime/store"
)

// EarlierRelease builds testdata/release with the packages of a commit. It skips the test if this
// module has no history, because it was not cloned.
func EarlierRelease(t *testing.T, commit string) (program string) {
	t.Helper()
	root := usermodule.Root(t)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("the module is no clone of its repository: ", err)
	}
	dir := usermodule.Directory(t)
	execute := func(in, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v (a shallow clone gets its history by git fetch --unshallow)\n%s", name, args, err, out)
		}
	}
	tree := filepath.Join(t.TempDir(), "tree.tar")
	execute(root, "git", "archive", "-o", tree, commit, "go.mod", "go.sum", "runtime", "memstore", "sqlitestore", "redisstore", "internal")
	execute(dir, "tar", "-xf", tree)
	text, err := os.ReadFile(filepath.Join(root, "runtime", "internal", "flowtest", "testdata", "release", "main.go"))
	Order(t, err)
	usermodule.Write(t, dir, "release/main.go", string(text))
	program = filepath.Join(t.TempDir(), "release")
	execute(dir, "go", "build", "-buildvcs=false", "-o", program, "./release")
	return program
}

// Outside starts a worker process of the program that [EarlierRelease] builds, on the store with the
// given URL, and waits until its session is live.
func (w *World) Outside(program, url string) (stop func()) {
	w.T.Helper()
	cmd := exec.CommandContext(w.Ctx, program, url)
	var logs strings.Builder
	cmd.Stderr = &logs
	Order(w.T, cmd.Start())
	teller, _ := store.As[store.FleetTeller](w.Store)
	w.Eventually("the process works", func() bool {
		fleet, err := teller.Fleet(w.Ctx)
		Order(w.T, err)
		return slices.ContainsFunc(fleet.Sessions, func(s store.FleetSession) bool { return s.Worker == "old" && len(s.Routes) > 0 })
	})
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			w.T.Errorf("%v\n%s", err, logs.String())
		}
	}
}
