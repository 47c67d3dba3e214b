package db

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocks_OnlyTheEndOfTheHolderIsTakenForIt(t *testing.T) {
	dir := t.TempDir()
	holder, other := NewLocks(filepath.Join(dir, "runs.db")), NewLocks(filepath.Join(dir, "runs.db"))
	id := holder.Identity()
	if id == "" {
		t.Fatal("this machine cannot prove the end of a process: is the temporary directory on a local file system?")
	}
	boot, rest, _ := strings.Cut(id, " ")
	node, name, _ := strings.Cut(rest, " ")

	// Use a file with another name, and an unlocked file.
	free := strings.Replace(name, ".lock", "0.lock", 1)
	check(t, os.WriteFile(filepath.Join(dir, free), nil, 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "elsewhere.lock"), nil, 0o600))
	for what, id := range map[string]string{
		"held lock":            id,
		"empty":                "",
		"no words":             "x",
		"other boot":           strings.Join([]string{"other", node, free}, " "),
		"other inode":          strings.Join([]string{boot, node, free}, " "),
		"missing file":         strings.Join([]string{boot, node, strings.Replace(name, ".lock", "1.lock", 1)}, " "),
		"not a lock file":      strings.Join([]string{boot, node, "elsewhere.lock"}, " "),
		"other directory":      strings.Join([]string{boot, node, "../" + filepath.Base(dir) + "/" + name}, " "),
		"file of another name": strings.Join([]string{boot, node, "runs.db"}, " "),
	} {
		if other.Ended(id) {
			t.Errorf("%s: %q was taken for the end of a process", what, id)
		}
		if holder.Ended(id) {
			t.Errorf("%s: %q was taken by the holder itself for its end", what, id)
		}
	}

	check(t, holder.file.Unlock()) // the kernel does this when the process ends
	if other.Ended(strings.Join([]string{"other", node, name}, " ")) {
		t.Error("a free lock of another boot was taken for the end of a process")
	}
	if !other.Ended(id) {
		t.Error("the end of the holder was not noticed")
	}
	other.Remove(id)
	if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
		t.Errorf("stat of the removed lock file: got error %v, want that it does not exist", err)
	}
	if other.Ended(id) {
		t.Error("a lock file that is gone was taken for the end of a process")
	}
}

func TestLocks_AFileThatWasDeletedWhileHeldProvesNothing(t *testing.T) {
	dir := t.TempDir()
	holder, other := NewLocks(filepath.Join(dir, "runs.db")), NewLocks(filepath.Join(dir, "runs.db"))
	id := holder.Identity()
	path := holder.file.Path()
	check(t, os.Remove(path))
	if other.Ended(id) {
		t.Error("a deleted file was taken for the end of its holder")
	}
	// Replace the file by a new one.
	check(t, os.WriteFile(path, nil, 0o600))
	if other.Ended(id) {
		t.Error("another file of the same name was taken for the end of the holder")
	}
	check(t, holder.file.Unlock())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
