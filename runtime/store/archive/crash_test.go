package archive_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// Names of the environment variables that make the test binary import a file.
const (
	importFile = "ARCHIVE_TEST_FILE"
	importInto = "ARCHIVE_TEST_INTO"
)

func TestMain(m *testing.M) {
	if into := os.Getenv(importInto); into != "" {
		os.Exit(importAlone(os.Getenv(importFile), into))
	}
	redistest.Main(m)
}

// importAlone imports a file and prints a line for each imported run. It returns the exit code of
// the process.
func importAlone(name, into string) int {
	ctx := context.Background()
	f, err := os.Open(name)
	if err == nil {
		var st store.Store
		if st, err = store.Open(ctx, into); err == nil {
			err = archive.Import(ctx, f, st, "somebody", func(got archive.Imported) { fmt.Println(got.Run, got.Err) })
			err = errors.Join(err, st.Close())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// many returns a file with the given number of runs, and their IDs. Each run has several commits,
// streams and labels.
func many(t *testing.T, runs int) (string, []event.RunID) {
	t.Helper()
	s := newSource(t)
	for range runs - 3 {
		l, fence := s.start(event.Spec{WorkflowID: "order", Tags: map[string]string{"a": "b"}})
		for n := range 5 {
			c := l.Commit(fence, l.Work()...)
			c.Publish = []store.Publication{{Stream: "progress", Body: bytes.Repeat([]byte{byte(n)}, 2000)}}
			s.commit(l, c)
		}
		s.end(l, fence, event.StatusFailed, &store.FailureGroup{Group: "f1-0b", Kind: store.FailureKindFailed, Workflow: route.Workflow, Text: "no"})
	}
	ended := append(append([]event.RunID{}, s.runs[:3]...), s.runs[4:]...)
	return file(t, s.export(ended...)), ended
}

// whole fails the test unless the store has each run of the file completely or not at all, and has
// no violations. It returns the number of runs in the store.
func whole(t *testing.T, name, url string) (there int) {
	t.Helper()
	ctx := t.Context()
	want, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := store.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	page, err := want.List(ctx, store.Query{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Runs {
		a, _ := want.Load(ctx, []store.Load{{Run: r.Run}})
		b, err := got.Load(ctx, []store.Load{{Run: r.Run}})
		if err != nil {
			t.Fatal(err)
		}
		if errors.Is(b[0].Err, store.ErrRunNotFound) {
			continue
		}
		there++
		if b[0].Err != nil || fmt.Sprint(a[0].Frames) != fmt.Sprint(b[0].Frames) || a[0].Record.Group != b[0].Record.Group {
			t.Errorf("run %s is not what it was: %v", r.Run, b[0].Err)
		}
		for _, name := range []string{"a", "progress"} {
			q := store.ReadStream{Run: r.Run, Stream: name}
			p, _ := want.ReadStream(ctx, q)
			if s, err := got.ReadStream(ctx, q); err != nil || r.Chain == r.Run && fmt.Sprint(s) != fmt.Sprint(p) {
				t.Errorf("stream %q of run %s is not what it was: %v", name, r.Run, err)
			}
		}
	}
	report, err := fsck.Repair(ctx, got, fsck.Options{DryRun: true})
	if err != nil || len(report.Fixes) > 0 {
		t.Errorf("fsck: %v, %+v", err, report)
	}
	return there
}

// stores returns the URLs of stores whose data survive a process.
func stores(t *testing.T) map[string]string {
	return map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "runs.db"), "Redis": redistest.Shared(t).URL() + "?prefix=" + redistest.Prefix()}
}

func TestOPS1_AKilledImportLeavesWholeRuns(t *testing.T) {
	name, runs := many(t, 120)
	for kind, url := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			for _, after := range []int{1, 2, 7, 30, 70, 1000} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Env = append(os.Environ(), importFile+"="+name, importInto+"="+url)
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				said := 0
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if said++; said == after {
						_ = cmd.Process.Kill() // fails if the process has ended
					}
				}
				_ = cmd.Wait()
				if there := whole(t, name, url); there < min(said, len(runs)) {
					t.Errorf("killed after %d runs: %d are there, and it said %d", after, there, said)
				}
			}
			if there := whole(t, name, url); there != len(runs) {
				t.Errorf("in the end %d of %d runs are there", there, len(runs))
			}
		})
	}
}

// TestOPS1_AServerThatIsKilledHasWholeRuns kills the server after each response. It proves that the
// server has stored every run whose import it confirmed.
func TestOPS1_AServerThatIsKilledHasWholeRuns(t *testing.T) {
	name, runs := many(t, 40)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	for kills := 1; ; kills++ {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		err = archive.Import(ctx, f, st, "somebody", func(archive.Imported) {
			if done++; done == 11*kills && kills < 4 {
				server.Kill()
			}
		})
		cancel()
		_, _ = st.Close(), f.Close()
		if err == nil {
			break
		}
		if kills > 4 || !store.Unknown(err) {
			t.Fatalf("import after %d kills: %v", kills, err)
		}
		server.Restart(t)
		if there := whole(t, name, server.URL()); there < done {
			t.Errorf("after kill %d there are %d runs, %d were answered", kills, there, done)
		}
	}
	if there := whole(t, name, server.URL()); there != len(runs) {
		t.Errorf("in the end %d of %d runs are there", there, len(runs))
	}
}

func TestOPS1_AServerWithoutMemoryTakesWholeRuns(t *testing.T) {
	name, runs := many(t, 60)
	server := redistest.Start(t)
	client := server.Client(t)
	st, err := store.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	done := 0
	add := func(after func()) error {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		done = 0
		return archive.Import(t.Context(), f, st, "somebody", func(archive.Imported) {
			if done++; done == 20 {
				after()
			}
		})
	}
	limit := func(bytes int) {
		if err := client.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes)).Err(); err != nil {
			t.Error(err)
		}
	}
	err = add(func() {
		_, used, _ := strings.Cut(client.Info(t.Context(), "memory").Val(), "used_memory:")
		used, _, _ = strings.Cut(used, "\r")
		now, err := strconv.Atoi(used)
		if err != nil {
			t.Error(err)
		}
		limit(now + 100_000)
	})
	if err == nil || !strings.Contains(err.Error(), "at its memory limit") {
		t.Fatalf("import: got %v, want that the server is full", err)
	}
	limit(0)
	if there := whole(t, name, server.URL()); there != done || done == len(runs) {
		t.Errorf("of a full server: %d runs are there, %d were answered", there, done)
	}
	if err := add(func() {}); err != nil {
		t.Fatal(err)
	}
	if there := whole(t, name, server.URL()); there != len(runs) {
		t.Errorf("in the end %d of %d runs are there", there, len(runs))
	}
}
