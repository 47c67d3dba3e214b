package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOPS3_TypesAreWrittenAndCompared(t *testing.T) {
	dir := module(t, flow)
	printed := execute(t, dir, "types")
	if printed.code != 0 || !strings.Contains(printed.stdout, "export interface Flows {") || !strings.Contains(printed.stdout, `"orders.pay": {`) || !strings.Contains(printed.stdout, "cents: number;") {
		t.Fatalf("printed: %+v", printed)
	}
	if got := execute(t, dir, "types", "-check", "-o", "flows.ts"); got.code != 1 || !strings.Contains(got.stderr, "flows.ts: the file is missing or stale") {
		t.Errorf("missing: %+v", got)
	}
	if got := execute(t, dir, "types", "-o", "flows.ts", "."); got.code != 0 || got.stdout != "wrote flows.ts\n" {
		t.Errorf("written: %+v", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "flows.ts")); err != nil || string(text) != printed.stdout {
		t.Errorf("the file has %s, %v", text, err)
	}
	for _, args := range [][]string{{"types", "-check", "-o", "flows.ts"}, {"types", "-o", "flows.ts"}} {
		if got := execute(t, dir, args...); got.code != 0 || got.stdout != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "flows.ts"), []byte("// older\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, dir, "types", "-check", "-o", "flows.ts"); got.code != 1 {
		t.Errorf("stale: %+v", got)
	}
	for _, args := range [][]string{{"types", "-nonsense"}, {"types", "-check"}, {"types", "orders.go"}} {
		if got := execute(t, dir, args...); got.code != 2 || got.stderr == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got := execute(t, dir, "types", "-help"); got.code != 0 || !strings.Contains(got.stdout, "-check") {
		t.Errorf("help: %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "orders.go"), []byte("package orders\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := execute(t, dir, "types"); got.code != 1 || !strings.Contains(got.stderr, "there is no //flow: directive") {
		t.Errorf("without directives: %+v", got)
	}
}

// The test proves that the committed types for the tests of the TypeScript client match the Go
// package from which they are generated.
func TestOPS3_TypesOfTheClientsTestsAreCommitted(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	got := execute(t, root, "types", "-check", "-o", "clients/ts/test/e2e/flows.ts", "./clients/ts/e2e/clients")
	if got.code != 0 {
		t.Errorf("flowgen types -o clients/ts/test/e2e/flows.ts ./clients/ts/e2e/clients writes it: %+v", got)
	}
}
