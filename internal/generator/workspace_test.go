package generator_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run generates code for every package of a workspace.
func run(t *testing.T, dir string) *generator.Report {
	t.Helper()
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// mustRun is like run, but fails the test if there are diagnostics.
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
