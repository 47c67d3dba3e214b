package main

import (
	"context"
	"path/filepath"
	"testing"
)

func TestRun_EndsWithoutAnErrorAndGivesUpItsStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.db")
	for range 2 {
		if err := run(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, file); err == nil {
		t.Error("it says that it has started a run although its context had ended")
	}
}
