package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

var (
	errOpened = errors.New("opened")
	openedAt  string // URL of the last store that was opened
	register  = sync.OnceFunc(func() {
		store.Register("envtest", func(_ context.Context, url string) (store.Store, error) {
			openedAt = url
			return nil, errOpened
		})
	})
)

func TestOPS6_OpenFromEnv_OpensTheURLWithThePassword(t *testing.T) {
	register()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p@ss/wörd\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, password, file, want string }{
		{url: "envtest:orders.db", want: "envtest:orders.db"},
		{url: "envtest://host/0?prefix=a", password: "p@ss", want: "envtest://:p%40ss@host/0?prefix=a"},
		{url: "envtest://ada@host/0?prefix=a", file: file, want: "envtest://ada:p%40ss%2Fw%C3%B6rd@host/0?prefix=a"},
	} {
		t.Setenv("FLOWGEN_STORE", tt.url)
		t.Setenv("FLOWGEN_STORE_PASSWORD", tt.password)
		t.Setenv("FLOWGEN_STORE_PASSWORD_FILE", tt.file)
		if _, err := store.OpenFromEnv(t.Context()); !errors.Is(err, errOpened) || openedAt != tt.want {
			t.Errorf("%s: opened %q, %v, want %q", tt.url, openedAt, err, tt.want)
		}
	}
}

func TestOPS6_OpenFromEnv_NamesTheVariableWithoutThePassword(t *testing.T) {
	for _, tt := range []struct{ url, password, want string }{
		{"", "", "is not set"},
		{"", "hunter2", "is not set"},
		{"sqlite:orders.db", "hunter2", "a URL with a host"},
		{"redis://ada:hunter3@host", "hunter2", "one of them"},
		{"redis://ada:hun%ter3@host", "hunter2", "a URL with a host"},
	} {
		t.Setenv("FLOWGEN_STORE", tt.url)
		t.Setenv("FLOWGEN_STORE_PASSWORD", tt.password)
		_, err := store.OpenFromEnv(t.Context())
		e, ok := errors.AsType[*store.VariableError](err)
		if !ok || e.Name != "FLOWGEN_STORE" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want an error about FLOWGEN_STORE with %q", tt.url, err, tt.want)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "hun%")) {
			t.Errorf("%q: the error contains a password: %v", tt.url, err)
		}
	}
}

func TestOPS6_OpenFromEnv_ReportsAMisspelledVariable(t *testing.T) {
	t.Setenv("FLOWGEN_STROE", "sqlite:orders.db")
	_, err := store.OpenFromEnv(t.Context())
	if e, ok := errors.AsType[*store.UnknownVariableError](err); !ok || e.Name != "FLOWGEN_STROE" || e.Nearest != "FLOWGEN_STORE" {
		t.Errorf("got %v, want an error that names FLOWGEN_STORE", err)
	}
}
