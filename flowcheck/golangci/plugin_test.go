package golangci_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/flowgen/flowgen/flowcheck/golangci"
	"github.com/golangci/plugin-module-register/register"
)

// reported returns the reports of the linter about the sample. It calls the plugin in the same way
// as golangci-lint.
func reported(t *testing.T, settings any) []string {
	t.Helper()
	build, err := register.GetPlugin(golangci.Name)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := build(settings)
	if err != nil {
		t.Fatal(err)
	}
	if mode := plugin.GetLoadMode(); mode != register.LoadModeTypesInfo {
		t.Errorf("it loads by %q, want %q", mode, register.LoadModeTypesInfo)
	}
	analyzers, err := plugin.BuildAnalyzers()
	if err != nil {
		t.Fatal(err)
	}
	sample, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax | packages.NeedModule}, "./testdata/sample")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze(analyzers, sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, root := range graph.Roots {
		if root.Err != nil {
			t.Fatalf("%v: %v", root, root.Err)
		}
		for _, d := range root.Diagnostics {
			at := root.Package.Fset.Position(d.Pos)
			got = append(got, fmt.Sprintf("%s:%d: %s", filepath.Base(at.Filename), at.Line, root.Analyzer.Name))
		}
	}
	slices.Sort(got)
	return got
}

func TestGEN4_TheLinterReportsWhatTheRulesFind(t *testing.T) {
	want := []string{"sample.go:11: clock", "sample.go:15: clock"}
	if d := cmp.Diff(want, reported(t, nil)); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}

func TestGEN4_TheLinterGivesAdviceIfItsSettingsSaySo(t *testing.T) {
	want := []string{"sample.go:11: clock", "sample.go:15: clock", "sample.go:26: endless"}
	if d := cmp.Diff(want, reported(t, map[string]any{"advice": true})); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}

func TestGEN4_TheLinterRefusesSettingsThatItDoesNotKnow(t *testing.T) {
	if _, err := golangci.New(map[string]any{"advise": true}); err == nil {
		t.Error("an unknown setting was taken")
	}
}
