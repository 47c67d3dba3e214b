package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// large is a shop whose workers keep large payloads in blobs.
type large struct {
	*shop
	keys, dir string // file of keys, and directory of the blobs
	blobs     *codec.FileBlobs
	run       string // a run with three such payloads
	label     string // its result
}

// openLarge returns a large shop in a SQLite file.
func openLarge(t *testing.T) *large {
	t.Helper()
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	l := &large{keys: filepath.Join(t.TempDir(), "keys"), dir: t.TempDir()}
	if err := os.WriteFile(l.keys, []byte(key.Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l.blobs, err = codec.NewFileBlobs(l.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.blobs.Close() })
	sealing, err := codec.New(codec.Config{Keys: codec.Keys(key), Blobs: l.blobs, OffloadAbove: 1000, CompressAbove: -1})
	if err != nil {
		t.Fatal(err)
	}
	l.shop = &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "large.db"), codec: sealing}
	l.work(func(ctx context.Context, c *workflow.Client) {
		run, err := orders.Start(ctx, c, strings.Repeat("large ", 500), workflow.WithID("order-large"))
		if err != nil {
			t.Fatal(err)
		}
		if l.label, err = run.Result(ctx); err != nil {
			t.Fatal(err)
		}
		l.run = string(run.ID())
	})
	if n := len(l.names()); n < 3 {
		t.Fatalf("the run has %d blobs, want one for the input, one for the result of the step, and one for its result", n)
	}
	return l
}

// names returns the names of all blobs.
func (l *large) names() (names []string) {
	l.t.Helper()
	page, err := l.blobs.List(l.t.Context(), "", "", 1000)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, b := range page {
		names = append(names, b.Name)
	}
	return names
}

// env sets the keys and the blob store of flowctl. An empty value unsets a variable.
func (l *large) env(keys, blobs string) {
	l.t.Setenv("FLOWGEN_CODEC_KEYS_FILE", keys)
	if blobs != "" {
		blobs = "file://" + filepath.ToSlash(blobs)
	}
	l.t.Setenv("FLOWGEN_CODEC_BLOBS", blobs)
}

// TestOPS11_FlowctlReadsPayloadsInABlobStore proves that flowctl reads and copies offloaded payloads
// from the blob store that it was given, and otherwise names the blob and the variable.
func TestOPS11_FlowctlReadsPayloadsInABlobStore(t *testing.T) {
	l := openLarge(t)
	l.env(l.keys, l.dir)
	l.wants(0, []string{l.label}, nil, "show", l.run)
	l.wants(0, []string{"done"}, nil, "restart", l.run)

	l.env(l.keys, "")
	l.wants(0, []string{"sealed, key k1"}, nil, "show", l.run)
	l.wants(1, nil, []string{"blob " + l.run + "/", "FLOWGEN_CODEC_BLOBS"}, "restart", l.run)

	l.env(l.keys, l.dir+"2")
	l.wants(2, nil, []string{"FLOWGEN_CODEC_BLOBS", "no such file", "existing directory"}, "show", l.run)
	t.Setenv("FLOWGEN_CODEC_BLOBS", "s3://bucket")
	l.wants(2, nil, []string{"FLOWGEN_CODEC_BLOBS", "--server"}, "show", l.run)

	l.env(l.keys, l.dir)
	gone := l.names()[0]
	if err := l.blobs.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	l.wants(1, nil, []string{gone, store.ErrBlobNotFound.Error()}, "restart", l.run)
}

// TestOPS11_RunsWithBlobsAreRetriedAndForked proves that flowctl retries and forks runs with offloaded
// payloads: the new runs have the data of the old ones, in blobs of their own. Without the blob store, or
// without one of the blobs, it makes no run and names the blob.
func TestOPS11_RunsWithBlobsAreRetriedAndForked(t *testing.T) {
	l := openLarge(t)
	const bad = "bad large "
	in := strings.Repeat(bad, 300)
	var failed string
	l.work(func(ctx context.Context, c *workflow.Client) {
		run, err := orders.Start(ctx, c, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(ctx); !errors.As(err, new(*workflow.RunError)) {
			t.Fatalf("the run has not failed: %v", err)
		}
		failed = string(run.ID())
	})
	commands := map[string][]string{
		"label of " + in: {"retry", failed},
		l.label:          {"fork", l.run, "--step", "order/shop.ship#1"},
	}
	l.env(l.keys, l.dir)
	for want, args := range commands {
		made := l.flowctl(append(args, "-o", "name")...)
		if made.code != 0 {
			t.Fatalf("%s: %+v", args[0], made)
		}
		id := strings.TrimSpace(made.stdout)
		l.look(func(ctx context.Context, c *workflow.Client) {
			w := worker.New(c, worker.Config{})
			ship.Bind(w, func(_ context.Context, what string) (string, error) { return "label of " + what, nil })
			shim.BindWorkflow(w, orders, order)
			working, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- w.Run(working) }()
			got, err := orders.Get(c, workflow.RunID(id)).Result(ctx)
			if stop(); err != nil || got != want {
				t.Errorf("%s: the new run has returned %.20q of %d bytes, %v; want %d bytes", args[0], got, len(got), err, len(want))
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if !slices.ContainsFunc(l.names(), func(name string) bool { return strings.HasPrefix(name, id+"/") }) {
			t.Errorf("%s: the new run has no blobs", args[0])
		}
		l.wants(0, []string{"completed", want}, nil, "show", id)
	}
	for _, args := range commands {
		of := args[1] + "/"
		count := func() (n int) {
			l.look(func(ctx context.Context, c *workflow.Client) {
				for _, err := range c.List(ctx, workflow.Filter{}) {
					if n++; err != nil {
						t.Fatal(err)
					}
				}
			})
			return n
		}
		before := count()
		l.env(l.keys, "")
		l.wants(1, nil, []string{"blob " + of, "FLOWGEN_CODEC_BLOBS"}, args...)
		l.env("", l.dir)
		l.wants(1, nil, []string{"get key k1 of payloads"}, args...)
		l.env(l.keys, l.dir)
		for _, name := range l.names() {
			if strings.HasPrefix(name, of) {
				if err := l.blobs.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.wants(1, nil, []string{"blob " + of, store.ErrBlobNotFound.Error()}, args...)
		if after := count(); after != before {
			t.Errorf("%s: %d runs became %d", args[0], before, after)
		}
	}
}

// TestOPS11_AnArchiveIsCompleteInAnotherPlace proves that an export without a key contains offloaded
// payloads, and that an import into another store and another blob store makes them readable with the
// key. A missing payload is reported by its name by the export and by the import.
func TestOPS11_AnArchiveIsCompleteInAnotherPlace(t *testing.T) {
	l := openLarge(t)
	file := filepath.Join(t.TempDir(), "large.jsonl")
	l.env("", "")
	l.wants(1, nil, []string{"blob " + l.run + "/", "FLOWGEN_CODEC_BLOBS"}, "export", l.run, "--out", file)
	l.env("", l.dir)
	l.wants(0, nil, []string{"exported 1 runs"}, "export", l.run, "--out", file)
	if text := bodies(t, file); strings.Contains(text, "large large") {
		t.Error("the export contains open payloads")
	}
	checked := flowctl(t, "import", file)
	if want := fmt.Sprintf("and %d payloads outside of the store, of which 0 are missing", len(l.names())); checked.code != 0 || !strings.Contains(checked.stdout, want) {
		t.Errorf("check: %+v, want %q", checked, want)
	}
	inFile := &shop{t: t, url: "export:" + file}
	inFile.wants(0, []string{"sealed, key k1"}, nil, "show", l.run)
	l.env(l.keys, "")
	inFile.wants(0, []string{l.label}, nil, "show", l.run)

	moved := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "moved.db")}
	l.env("", "")
	if g := flowctl(t, "import", file, "--into", moved.url); g.code != 1 || !strings.Contains(g.stderr, "the file contains") || !strings.Contains(g.stderr, "FLOWGEN_CODEC_BLOBS") {
		t.Errorf("import without a blob store: %+v", g)
	}
	other := t.TempDir()
	l.env("", other)
	for _, want := range []string{"1 runs imported", "1 already present"} {
		if g := flowctl(t, "import", file, "--into", moved.url); g.code != 0 || !strings.Contains(g.stdout, want) {
			t.Errorf("import: %+v, want %q", g, want)
		}
	}
	l.env(l.keys, other)
	moved.wants(0, []string{l.label}, nil, "show", l.run)
	moved.wants(0, []string{"done"}, nil, "restart", l.run)

	l.env("", l.dir)
	gone := l.names()[1]
	if err := l.blobs.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(t.TempDir(), "part.jsonl")
	l.wants(5, nil, []string{"missing: blob " + gone}, "export", l.run, "--out", part)
	server := l.serve("127.0.0.1:0")
	if g := flowctl(t, "export", "--server", server.url, l.run); g.code != 5 || !strings.Contains(g.stderr, "missing: blob "+gone) {
		t.Errorf("export from a server: %d, %s", g.code, g.stderr)
	}
	l.env("", t.TempDir())
	if g := flowctl(t, "import", part, "--into", "sqlite:"+filepath.Join(t.TempDir(), "part.db")); g.code != 5 || !strings.Contains(g.stderr, "missing: blob "+gone) {
		t.Errorf("import without a blob: %+v", g)
	}
}

// TestOPS11_FsckAndDoctorCheckTheBlobStore proves that fsck without a key reports a missing payload by
// its name, and that doctor reports the keys and the directory, and whether they can be used.
func TestOPS11_FsckAndDoctorCheckTheBlobStore(t *testing.T) {
	l := openLarge(t)
	l.env(l.keys, l.dir)
	l.wants(0, []string{"codec keys", "k1", "codec blobs", "file://" + filepath.ToSlash(l.dir)}, nil, "doctor")
	l.env("", l.dir)
	l.wants(0, []string{"not encrypted"}, nil, "doctor")
	l.wants(0, []string{"No violations"}, nil, "fsck")
	gone := l.names()[0]
	if err := l.blobs.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	l.wants(7, []string{"blob " + gone + " is missing", "restore the blob from a backup"}, nil, "fsck")
	l.env("", "")
	l.wants(0, []string{"No violations"}, nil, "fsck")
	l.wants(0, nil, []string{"no checks"}, "doctor")
}
