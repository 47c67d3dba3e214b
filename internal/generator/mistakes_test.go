package generator_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the want files")

// The test proves that diagnostics contain the problem and the fix. Every folder of
// testdata/mistakes is a package with mistakes, and its file "want" contains the expected
// diagnostics, one per line.
func TestGEN3_SaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	const root = "testdata/mistakes"
	report, err := generator.Run(t.Context(), generator.Config{Dir: root, Patterns: []string{"./..."}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, d := range report.Diagnostics {
		folder, file, _ := strings.Cut(d.File, "/")
		d.File = file
		got[folder] += d.String() + "\n"
	}
	folders, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			compareWant(t, filepath.Join(root, folder.Name(), "want"), got[folder.Name()])
		})
	}
}

func compareWant(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Error(fmt.Sprintf("diagnostics differ from %s (-want +got):\n", path), d)
	}
}
