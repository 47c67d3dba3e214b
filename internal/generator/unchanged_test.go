package generator_test

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
)

// age sets the modification times of all files to a minute ago, because the cache ignores recently
// written files.
func age(t *testing.T, dir string) {
	t.Helper()
	then := time.Now().Add(-time.Minute)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// call runs the generator and fails the test if Run returns an error.
func call(t *testing.T, cfg generator.Config) *generator.Report {
	t.Helper()
	report, err := generator.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// remembered reports whether a call is answered from the cache. Its context is canceled, so the go
// command cannot be started.
func remembered(t *testing.T, cfg generator.Config) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := generator.Run(ctx, cfg)
	if err == nil && (report.Annotated != 1 || len(report.Changes)+len(report.Diagnostics) > 0) {
		t.Errorf("remembered another report: %+v", report)
	}
	return err == nil
}

// worked is a workspace. One module has a client, a manifest, a helper and a test with a dot
// import. Two modules replace others, and one of these is not imported. Another module is only used
// by the workspace.
var worked = map[string]string{
	"go.work": "go 1.26.0\n\nuse (\n\t./shop\n\t./idle\n)\n",
	"shop/orders/orders.go": strings.Replace(withClient, "import (", "import (\n\t\"example.com/user/money\"\n\t\"example.com/other\"\n", 1) +
		"\nvar _ money.Cents\nvar _ other.Other\n",
	"shop/orders/orders_test.go":           "package orders\n\nimport . \"example.com/user/dots\"\n\nvar _ = Dot\n",
	"shop/orders/" + manifest.File:         "",
	"shop/money/money.go":                  "package money\n\ntype Cents int\n",
	"shop/dots/dots.go":                    "package dots\n\nvar Dot int\n",
	"shop/orders/testdata/ignored/some.go": "package ignored\n",
	"other/go.mod":                         "module example.com/other\n\ngo 1.26.0\n",
	"other/other.go":                       "package other\n\ntype Other int\n",
	"unread/go.mod":                        "module example.com/unread\n\ngo 1.26.0\n",
	"idle/go.mod":                          "module example.com/idle\n\ngo 1.26.0\n",
	"idle/idle.go":                         "package idle\n",
}

func newWorkspace(t *testing.T) (dir string, cfg generator.Config) {
	t.Helper()
	dir = usermodule.Directory(t)
	t.Setenv("GOWORK", "")
	t.Setenv("FLOWGENCACHE", filepath.Join(dir, "cache"))
	for file, text := range worked {
		usermodule.Write(t, dir, file, text)
	}
	usermodule.Write(t, dir, "shop/go.mod", usermodule.GoMod(t)+"\nrequire (\n\texample.com/other v0.0.0\n\texample.com/unread v0.0.0\n)\n\nreplace (\n\texample.com/other => ../other\n\texample.com/unread => ../unread\n)\n")
	sum, err := os.ReadFile(filepath.Join(usermodule.Root(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	usermodule.Write(t, dir, "shop/go.sum", string(sum))
	return dir, generator.Config{Dir: filepath.Join(dir, "shop"), Patterns: []string{"./..."}}
}

func TestGEN6_WhatDidNotChangeIsKnownWithoutTheGoCommand(t *testing.T) {
	dir, cfg := newWorkspace(t)
	if report := call(t, cfg); len(report.Changes) != 3 || len(report.Diagnostics) > 0 {
		t.Fatalf("the first call: got %+v, want three files", report)
	}
	if remembered(t, cfg) {
		t.Error("a call that wrote was remembered: what it has read may be older than what lies there")
	}
	call(t, cfg)
	if remembered(t, cfg) {
		t.Error("files that were written just now were remembered")
	}
	age(t, dir)
	call(t, cfg)
	if !remembered(t, cfg) {
		t.Fatal("a call that had nothing to do was not remembered")
	}
	check := generator.Config{Dir: cfg.Dir, Patterns: cfg.Patterns, Check: true}
	text, err := os.ReadFile(filepath.Join(cfg.Dir, "orders", "flow_gen.go"))
	if err != nil {
		t.Fatal(err)
	}
	usermodule.Write(t, dir, "shop/orders/flow_gen.go", string(text)+"\n// It compiles.\n")
	age(t, dir)
	if report := call(t, check); len(report.Changes) != 1 {
		t.Errorf("a stale file: got %+v, want it reported", report)
	}
	if remembered(t, check) {
		t.Error("a call that found a stale file was remembered")
	}
	for name, other := range map[string]generator.Config{
		"other packages":         {Dir: cfg.Dir, Patterns: []string{"./orders"}},
		"another directory":      {Dir: filepath.Join(cfg.Dir, "orders"), Patterns: []string{"./..."}},
		"-check":                 {Dir: cfg.Dir, Patterns: cfg.Patterns, Check: true},
		"-manifest":              {Dir: cfg.Dir, Patterns: cfg.Patterns, Manifest: true},
		"-client":                {Dir: cfg.Dir, Patterns: cfg.Patterns, Client: "api"},
		"-since":                 {Dir: cfg.Dir, Patterns: cfg.Patterns, Since: "HEAD"},
		"packages by their path": {Dir: cfg.Dir, Patterns: []string{"example.com/user/orders"}},
	} {
		if remembered(t, other) {
			t.Errorf("%s: answered by another call", name)
		}
	}
}

func TestGEN6_AnyChangeIsNoticed(t *testing.T) {
	dir, cfg := newWorkspace(t)
	call(t, cfg)
	age(t, dir)
	single := generator.Config{Dir: cfg.Dir, Patterns: []string{"./orders"}}
	for _, cfg := range []generator.Config{cfg, single} {
		call(t, cfg)
		if !remembered(t, cfg) {
			t.Fatal("a call that had nothing to do was not remembered")
		}
	}
	write := func(file, text string) func(*testing.T) {
		return func(t *testing.T) { usermodule.Write(t, dir, file, text) }
	}
	changes := map[string]func(*testing.T){
		"a file of the package":          write("shop/orders/orders.go", "package orders\n"),
		"a new file":                     write("shop/orders/more.go", "package orders\n"),
		"a new package":                  write("shop/new/deep/new.go", "package deep\n"),
		"a helper":                       write("shop/money/money.go", "package money\n\ntype Cents string\n"),
		"the generated file":             write("shop/orders/flow_gen.go", "package orders\n"),
		"the client":                     write("shop/orders/ordersclient/flow_client.go", "package ordersclient\n"),
		"the manifest":                   write("shop/orders/"+manifest.File, "{}"),
		"what a test imports with a dot": write("shop/dots/dots.go", "package dots\n\nvar Fulfil int\n"),
		"a module that replaces another": write("other/other.go", "package other\n\ntype Other string\n"),
		"the versions that one needs which nobody imports": write("unread/go.mod", "module example.com/unread\n\ngo 1.26.1\n"),
		"the versions that it needs":                       write("other/go.mod", "module example.com/other\n\ngo 1.26.1\n"),
		"go.mod":                                           write("shop/go.mod", "module example.com/user\n"),
		"go.sum":                                           write("shop/go.sum", ""),
		"go.work":                                          write("go.work", "go 1.26.0\n\nuse ./shop\n"),
		"a workspace that is nearer":                       write("shop/go.work", "go 1.26.0\n\nuse .\n"),
		"the sums of the workspace":                        write("go.work.sum", "example.com/x v1.0.0 h1:x=\n"),
		"a module that is only used":                       write("idle/go.mod", "module example.com/idle\n\ngo 1.26.1\n"),
		"a vendor directory":                               write("shop/vendor/modules.txt", "# example.com/x v1.0.0\n"),
		"a removed file":                                   func(*testing.T) { _ = os.Remove(filepath.Join(dir, "shop/orders/flow_gen.go")) },
		"a removed package":                                func(*testing.T) { _ = os.RemoveAll(filepath.Join(dir, "shop/money")) },
		"flags in the environment":                         func(t *testing.T) { t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -tags=x") },
		"files that flags replace":                         func(t *testing.T) { t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -modfile=x.mod") },
		"another platform":                                 func(t *testing.T) { t.Setenv("GOOS", "windows") },
		"another workspace":                                func(t *testing.T) { t.Setenv("GOWORK", "off") },
		"the environment of the go command":                func(t *testing.T) { t.Setenv("GOENV", filepath.Join(dir, "env")) },
		"no memory":                                        func(t *testing.T) { t.Setenv("FLOWGENCACHE", "off") },
		"a driver":                                         func(t *testing.T) { t.Setenv("GOPACKAGESDRIVER", "driver") },
		"garbage where the answer is": func(t *testing.T) {
			cache := os.Getenv("FLOWGENCACHE")
			entries, err := os.ReadDir(cache)
			if err != nil || len(entries) == 0 {
				t.Fatal("there is no answer", err)
			}
			for _, e := range entries {
				usermodule.Write(t, cache, e.Name(), "{")
			}
		},
	}
	for _, name := range depth.Sample(slices.Sorted(maps.Keys(changes)), 3) {
		t.Run(name, func(t *testing.T) {
			saved := t.TempDir()
			if err := os.CopyFS(saved, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(dir, os.DirFS(saved)); err != nil {
					t.Fatal(err)
				}
			})
			if !remembered(t, cfg) || !remembered(t, single) {
				t.Fatal("the calls are not remembered before the change")
			}
			changes[name](t)
			if remembered(t, cfg) {
				t.Error("the change was not noticed")
			}
			if remembered(t, single) && name != "a new package" {
				t.Error("the change was not noticed by a call for one package")
			}
		})
	}
}
