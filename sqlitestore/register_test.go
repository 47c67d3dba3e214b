package sqlitestore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

func TestOpenURL_AHostIsRefusedAndTheRightFormNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{"sqlite://orders.db", "sqlite://data/orders.db", "sqlite://./orders.db"} {
		s, err := store.Open(t.Context(), url)
		if err == nil {
			_ = s.Close()
			t.Fatalf("%s was opened", url)
		}
		file := strings.TrimPrefix(url, "sqlite://")
		for _, form := range []string{"sqlite:" + file, "sqlite:///" + file} {
			if !strings.Contains(err.Error(), form) {
				t.Errorf("%s: the error does not name %s: %v", url, form, err)
			}
		}
	}
}

func TestOpenExisting_AMissingFileIsAnErrorAndIsNotMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flows.db")
	url := "sqlite:" + path
	missing := func(what string) {
		t.Helper()
		s, err := store.OpenExisting(t.Context(), url)
		if err == nil {
			_ = s.Close()
		}
		if got, ok := errors.AsType[*store.MissingError](err); !ok || got.What != path {
			t.Errorf("%s: got %v, want a MissingError that names the file", what, err)
		}
	}
	missing("no file")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("there is %v (%v), want nothing", entries, err)
	}
	check(t, os.WriteFile(path, nil, 0o600))
	missing("an empty file")
	for _, open := range []func(context.Context, string) (store.Store, error){store.Open, store.OpenExisting} {
		s, err := open(t.Context(), url)
		check(t, err)
		check(t, s.Close())
	}
}

func TestOpenURL_NamesAFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for url, file := range map[string]string{
		"sqlite:a.db":                            "a.db",
		"sqlite:" + filepath.Join(dir, "b.db"):   "b.db",
		"sqlite://" + filepath.Join(dir, "c.db"): "c.db",
		"sqlite:./d.db":                          "d.db",
	} {
		s, err := store.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
