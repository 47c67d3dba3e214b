package workflowtest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// The flags have the package name as a prefix, so that they do not collide with flags of the tests.
var (
	updateFlag = flag.Bool("workflowtest.update", false, "write golden logs instead of comparing them")
	crashFlag  = flag.String("workflowtest.crash", "", "let CrashEverywhere try only this `POINT`, as a failure has printed it")
	seedFlag   = flag.Uint64("workflowtest.seed", 0, "let Interleave try only this `SEED`; 0: all")
)

// updating reports whether golden files must be written, because of a flag of this package or a
// flag -update of the test.
func updating() bool {
	if *updateFlag {
		return true
	}
	own := flag.Lookup("update")
	return own != nil && own.Value.String() == "true"
}

// Golden compares the log of a run, as rendered by [Env.Log], with the file testdata/<name of the
// test>.log. With the flag -workflowtest.update, or with -update if the test declares that flag, it
// writes the file instead.
func (e *Env) Golden(run *workflow.Handle) {
	e.tb.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(e.tb.Name())+".log")
	got := e.Log(run)
	if updating() {
		if err := writeFile(path, []byte(strings.Join(got, "\n")+"\n")); err != nil {
			e.tb.Fatalf("workflowtest: write golden log: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		e.tb.Fatalf("workflowtest: there is no golden log %s: run the test once with -workflowtest.update, and read what it has written", path)
	}
	if err != nil {
		e.tb.Fatalf("workflowtest: read golden log: %v", err)
	}
	if d := diff(strings.Split(strings.TrimSuffix(string(want), "\n"), "\n"), got); d != "" {
		e.tb.Errorf("workflowtest: the log differs from %s (-want +got):\n%sIf that is meant, run the test with -workflowtest.update; and replay recorded histories, for runs in flight have the old log.", path, d)
	}
}

// writeFile writes a file of the source tree. It creates missing directories.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // source files are readable for all users
		return err
	}
	return os.WriteFile(path, data, 0o644) //nolint:gosec // source files are readable for all users
}
