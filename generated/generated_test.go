package generated_test

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/google/go-cmp/cmp"
)

// The test proves that the generator writes the committed files. The target generated of the
// Makefile proves the same in make test.
func TestGEN2_RegenerationChangesNothing(t *testing.T) {
	depth.NeedFull(t)
	report, err := generator.Run(t.Context(), generator.Config{Dir: ".", Patterns: []string{"./..."}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&generator.Report{Diagnostics: report.Diagnostics[:0], Changes: report.Changes[:0], Annotated: report.Annotated, Warnings: report.Warnings[:0], Notes: report.Notes[:0]}, report); d != "" {
		t.Errorf("flowgen -check (-want +got):\n%s", d)
	}
}

func TestGEN2_IsFormatted(t *testing.T) {
	files := goldenFiles(t)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		formatted, err := format.Source(source)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(source, formatted) {
			t.Errorf("%s is not in gofmt's form:\n%s", file, cmp.Diff(string(formatted), string(source)))
		}
	}
}

// What cannot be broken, such as a long expression for a key, may go beyond.
func TestGEN2_LinesAreShort(t *testing.T) {
	for _, file := range goldenFiles(t) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(source)) {
			n++
			if width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); width > 124 {
				t.Errorf("%s:%d has %d columns: %s", file, n, width, line)
			}
		}
	}
}

func TestGolden_EveryPackageIsGenerated(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	folders := 0
	for _, e := range entries {
		if e.IsDir() {
			folders++
		}
	}
	if got := len(goldenFiles(t)); got != folders || folders == 0 {
		t.Errorf("there are %d golden files in %d folders", got, folders)
	}
}

// Package main is called by the last element of its import path.
func TestGolden_StoredNamesOfAProgramAreThoseOfItsFolder(t *testing.T) {
	source, err := os.ReadFile("program/flow_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{`"program.welcome"`, `"program.greet"`} {
		if !strings.Contains(string(source), name) {
			t.Errorf("program/flow_gen.go does not contain %s", name)
		}
	}
}

// go vet analyzes everything that a package imports: the tests of this folder and the program clients/caller, which link stores, are
// left out.
func TestGEN2_PassesVet(t *testing.T) {
	args := []string{"vet", "./clients/ordersclient", "./policies/failures"}
	for _, file := range goldenFiles(t) {
		args = append(args, "./"+filepath.Dir(file))
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

func goldenFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*/flow_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	return files
}
