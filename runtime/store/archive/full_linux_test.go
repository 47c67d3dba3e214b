package archive_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// importMost is the name of the environment variable that limits the size in bytes of files that
// the test binary may write.
const importMost = "ARCHIVE_TEST_MOST"

// init limits the file size, which has the same effect as a full disk.
func init() {
	most, err := strconv.ParseUint(os.Getenv(importMost), 10, 64)
	if err != nil {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		panic(err)
	}
}

func TestOPS1_AFullDiskTakesWholeRuns(t *testing.T) {
	name, runs := many(t, 60)
	path := filepath.Join(t.TempDir(), "runs.db")
	before, full := 0, 0
	for most := 500_000; before < len(runs); most += 300_000 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), importFile+"="+name, importInto+"=sqlite:"+path, importMost+"="+strconv.Itoa(most))
		var said, failed bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &failed
		err := cmd.Run()
		there := whole(t, name, "sqlite:"+path)
		if answered := bytes.Count(said.Bytes(), []byte("<nil>\n")); there < answered || there < before || (err == nil) != (there == len(runs)) {
			t.Fatalf("in %d bytes: %d runs are there, %d were answered, and %d were there before: %v\n%s", most, there, answered, before, err, failed.String())
		}
		if err != nil {
			full++
		}
		before = there
	}
	if full == 0 {
		t.Error("the disk was never full")
	}
}
