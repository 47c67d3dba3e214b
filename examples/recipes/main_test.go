package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
	"go.uber.org/goleak"
)

// roles contains the programs that the test binary executes instead of the tests. Tests start it in
// a role as a process that they kill.
var roles = map[string]func(ctx context.Context, args []string) error{
	"pay":  payRole,
	"work": workRole,
}

// quiet configures clients without log output.
var quiet = workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)}

const roleOf = "RECIPES_ROLE"

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleOf)]; ok {
		if err := role(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// limited returns a context that ends before the test binary does.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The test proves that each recipe prints the output in its package comment, which follows
// "prints:".
func TestRecipes_PrintWhatTheirCommentsShow(t *testing.T) {
	for _, r := range recipes {
		want, ok := printed(t, r.name)
		if !ok {
			continue // This recipe runs until it is stopped.
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := run(limited(t), []string{r.name}, &out); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != want {
				t.Errorf("it prints\n%swant\n%s", got, want)
			}
		})
	}
}

// printed returns the output that the package comment of a recipe contains.
func printed(t *testing.T, name string) (string, bool) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(name, name+".go"), nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(file.Doc.Text(), " prints:\n\n")
	var out strings.Builder
	for line := range strings.Lines(rest) {
		text, indented := strings.CutPrefix(line, "\t")
		if !indented {
			break
		}
		out.WriteString(text)
	}
	return out.String(), ok
}

func TestRecipes_AreListed(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		if !strings.Contains(out.String(), r.name+" ") {
			t.Errorf("%s is not listed:\n%s", r.name, out.String())
		}
	}
	if err := run(t.Context(), []string{"unknown"}, &out); err == nil || !strings.Contains(err.Error(), `"unknown"`) {
		t.Errorf("an unknown recipe: %v", err)
	}
}
