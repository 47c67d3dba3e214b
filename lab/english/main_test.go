package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck_FindsPhrasesInCommentsAlone(t *testing.T) {
	src := "package p\n\n// X is what Y does. It is to be\n// ready, also if Z waits behind it.\nvar x = \"is what\" // the birth\n"
	var got []string
	for _, f := range check("p.go", []byte(src)) {
		got = append(got, strings.SplitN(f.String(), ":", 4)[1]+" "+f.found)
	}
	want := []string{"3 is what", "3 is to be", "4 waits behind", "4 also if", "5 birth"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheck_LeavesPlainEnglishAlone(t *testing.T) {
	src := "package p\n\n// Append writes what it is given. Birthday, hubris, is today's: it stands behind the wall.\n"
	if found := check("p.go", []byte(src)); len(found) > 0 {
		t.Errorf("got %v, want nothing", found)
	}
}

func TestRun_LooksAtFilesThatDifferFromTheRevision(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bad := "package p\n\n// X is what Y does.\n"
	write("old.go", bad)
	write("gone.go", bad)
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "old")
	write("new.go", bad)
	git("rm", "-q", "gone.go")
	git("add", ".")
	for since, want := range map[string]int{"HEAD": 1} {
		if got, err := run(since, false); err != nil || got != want {
			t.Errorf("since %s: got %d, %v, want %d", since, got, err, want)
		}
	}
	if got, err := run("", true); err != nil || got != 2 {
		t.Errorf("all: got %d, %v, want 2", got, err)
	}
	if _, err := run("nowhere", false); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("an unknown revision: got %v", err)
	}
}
