package release

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/module"
)

var users = flag.Bool("users", false, "perform the steps of a user who installs a release")

func TestModules_RequireEachOtherAsReleasedAndReplaceNothing(t *testing.T) {
	work, modules := workspace(t)
	version := released(t, work)
	replaced := map[string]bool{}
	for _, r := range work.Replace {
		if r.Old.Version != version {
			t.Errorf("go.work replaces %s, want version %s", r.Old, version)
		}
		replaced[r.Old.Path] = true
	}
	for _, m := range modules {
		for _, r := range m.file.Replace {
			t.Errorf("%s/go.mod replaces %s: it is ignored where the module is required, and makes go install refuse it", m.dir, r.Old)
		}
		for _, r := range m.file.Require {
			if r.Mod.Path != own && !strings.HasPrefix(r.Mod.Path, own+"/") {
				continue
			}
			if want := (module.Version{Path: r.Mod.Path, Version: version}); r.Mod != want {
				t.Errorf("%s/go.mod requires %s, want %s", m.dir, r.Mod, want)
			}
			if !replaced[r.Mod.Path] {
				t.Errorf("%s/go.mod requires %s, which go.work does not replace", m.dir, r.Mod)
			}
		}
	}
}

// TestRelease_AUserInstallsGeneratesAndRunsTheProgramOfTheREADME proves that a user can install
// flowgen, generate code, and start the program of the README. The test compiles everything and
// takes about three minutes. It is executed by make release-check.
func TestRelease_AUserInstallsGeneratesAndRunsTheProgramOfTheREADME(t *testing.T) {
	if !*users {
		t.Skip("without -users")
	}
	work, modules := workspace(t)
	proxy, dir, bin := t.TempDir(), t.TempDir(), t.TempDir()
	fillProxy(t, proxy, modules, released(t, work))
	// Modules of others come from the module cache. go get and go mod tidy need the modules that
	// the root module requires. go install needs the modules that flowctl links.
	all := t.TempDir() // go get adds to go.sum in this directory
	for _, name := range []string{"go.mod", "go.sum"} {
		write(t, filepath.Join(all, name), read(t, filepath.Join(root, name)))
	}
	run(t, all, []string{"GOWORK=off"}, "go", "mod", "download", "all")
	run(t, root, nil, "go", "list", "-deps", "./cmd/flowctl")
	downloaded := strings.TrimSpace(string(run(t, root, nil, "go", "env", "GOMODCACHE")))
	env := []string{
		"GOWORK=off", "GOBIN=" + bin, "GOSUMDB=off", "GOTOOLCHAIN=local", "GOMODCACHE=" + filepath.Join(t.TempDir(), "mod"),
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(downloaded, "cache", "download"),
		"GOFLAGS=-modcacherw -trimpath " + os.Getenv("GOFLAGS"), // -modcacherw makes it possible to remove the directory; -trimpath shares the build cache
	}

	page := string(read(t, filepath.Join(root, "README.md")))
	run(t, dir, env, "go", "mod", "init", "example.com/orders")
	install, build := steps(t, page)
	for _, line := range install {
		run(t, dir, env, "sh", "-c", line)
	}
	copyFlows(t, filepath.Join(dir, "flows"))
	write(t, filepath.Join(dir, "main.go"), []byte(strings.Replace(program(t, page), own+"/examples/guide/flows", "example.com/orders/flows", 1)))
	write(t, filepath.Join(dir, "generate.go"), []byte("package main\n\n//go:generate go tool flowgen ./...\n"))
	for _, line := range build {
		run(t, dir, env, "sh", "-c", line)
	}
	if string(read(t, filepath.Join(dir, "flows", "flow_gen.go"))) != string(read(t, filepath.Join(root, "examples/guide/flows/flow_gen.go"))) {
		t.Error("the generator of the release writes something else than that of the tree")
	}
	list := string(run(t, dir, env, filepath.Join(bin, "flowctl"), "runs", "--store", "sqlite:orders.db"))
	if !regexp.MustCompile(`(?m)^.*\boffer-42\b.*\bcompleted\b|\bcompleted\b.*\boffer-42\b`).MatchString(list) {
		t.Errorf("flowctl runs lists\n%s\nwant offer-42 completed", list)
	}
}

// steps returns the commands of the README, in order. install contains the commands that install,
// and build contains the commands that create and start the program.
func steps(t *testing.T, page string) (install, build []string) {
	t.Helper()
	const heading = "\n## In your own module\n"
	_, rest, found := strings.Cut(page, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)\n```\n").FindAllStringSubmatch(rest, -1)
	if !found || len(blocks) != 2 {
		t.Fatalf("the README has %d blocks of commands below %q, want 2", len(blocks), heading)
	}
	return strings.Split(blocks[0][1], "\n"), strings.Split(blocks[1][1], "\n")
}

// program returns the source of the program in the README.
func program(t *testing.T, page string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "```go examples/guide/program/main.go\n")
	text, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("the README has no program")
	}
	return text
}

// copyFlows copies the annotated functions of the program to a directory.
func copyFlows(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "examples/guide/flows/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if base := filepath.Base(name); base != "flow_gen.go" && !strings.HasSuffix(base, "_test.go") {
			write(t, filepath.Join(dir, base), read(t, name))
		}
	}
}
