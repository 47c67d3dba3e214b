package compat_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/compat"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of docs/use/breaking.md")

// The test proves that the page contains the rows of the table between its first marks.
func TestVER4_ThePageHasTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "use", "breaking.md")
	page := read(t, path)
	const begin, end = "<!-- rows -->\n", "<!-- end of rows -->\n"
	before, rest, ok := strings.Cut(page, begin)
	if !ok {
		t.Fatalf("%s has no place for the table", path)
	}
	old, after, ok := strings.Cut(rest, end)
	if !ok {
		old, after = "", rest
	}
	var b strings.Builder
	b.WriteString("\n| change | class | reason | way out |\n|---|---|---|---|\n")
	for _, r := range compat.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Change, r.Class, r.Reason, r.WayOut)
	}
	b.WriteString("\n")
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(b.String(), old); d != "" {
		t.Errorf("the table of %s is not that of the rows: run go test ./internal/compat -run ThePage -update (-want +got):\n%s", path, d)
	}
}
