package generator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
)

// workspace makes a module of its own, with the given files, which uses this
// one as a dependency. It returns its directory.
func workspace(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", moduleFile(t, root))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "go.sum", string(sum))
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

// moduleFile is this module's go.mod turned into that of a user.
func moduleFile(t *testing.T, root string) string {
	t.Helper()
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/flowgen/flowgen"
	text := strings.Replace(string(own), "module "+path, "module example.com/user", 1)
	return text + "\nrequire " + path + " v0.0.0\n\nreplace " + path + " => " + root + "\n"
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run generates every package of a workspace.
func run(t *testing.T, dir string) *generator.Report {
	t.Helper()
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// mustRun is run for workspaces without mistakes.
func mustRun(t *testing.T, dir string) *generator.Report {
	t.Helper()
	report := run(t, dir)
	for _, d := range report.Diagnostics {
		t.Errorf("unexpected: %s", d)
	}
	return report
}

func check(t *testing.T, dir string) *generator.Report {
	t.Helper()
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

const orders = `package orders

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is what is sold.
type Order struct{ ID string }

//flow:step
func charge(ctx context.Context, order Order) (int, error) { return 0, nil }

//flow:workflow
func fulfil(ctx workflow.Context, order Order) (int, error) { return Charge(ctx, order) }
`
