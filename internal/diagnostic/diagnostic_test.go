package diagnostic_test

import (
	"go/token"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/google/go-cmp/cmp"
)

func TestString_LeavesOutWhatIsNotKnown(t *testing.T) {
	for want, d := range map[string]diagnostic.Diagnostic{
		"a.go:3:7: x is wrong: mend x": diagnostic.New(token.Position{Filename: "a.go", Line: 3, Column: 7}, "x is wrong", "mend x"),
		"a.go: x is wrong: mend x":     {File: "a.go", What: "x is wrong", Fix: "mend x"},
		"x is wrong":                   {What: "x is wrong"},
	} {
		if got := d.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The test proves that String escapes control characters, which a terminal or a CI system would
// interpret.
func TestString_IsOneLineWithoutControlCharacters(t *testing.T) {
	d := diagnostic.Diagnostic{File: "a\x1b[2J.go", Line: 1, Column: 2, What: "x\n::error::y\r\n\tz \u009b31m \u202e\x00\xff", Fix: "mend\tx\u00e9\ufffd"}
	want := `a\x1b[2J.go:1:2: x ::error::y z \u009b31m \u202e\x00\xff: mend` + "\tx\u00e9\ufffd"
	if got := d.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSorted_OrdersByPlaceAndDropsRepetitions(t *testing.T) {
	at := func(file string, line, column int, what string) diagnostic.Diagnostic {
		return diagnostic.Diagnostic{File: file, Line: line, Column: column, What: what}
	}
	in := []diagnostic.Diagnostic{at("b", 1, 1, "x"), at("a", 10, 1, "x"), at("a", 9, 2, "x"), at("a", 9, 1, "y"), at("a", 9, 1, "x"), at("a", 10, 1, "x")}
	want := []diagnostic.Diagnostic{at("a", 9, 1, "x"), at("a", 9, 1, "y"), at("a", 9, 2, "x"), at("a", 10, 1, "x"), at("b", 1, 1, "x")}
	if d := cmp.Diff(want, diagnostic.Sorted(in)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRelative_KeepsWhatIsRelative(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "user")
	in := []diagnostic.Diagnostic{{File: filepath.Join(dir, "a", "b.go")}, {File: filepath.Join(parent, "c.go")}, {File: "d.go"}, {}}
	want := []diagnostic.Diagnostic{{File: "a/b.go"}, {File: "../c.go"}, {File: "d.go"}, {}}
	if d := cmp.Diff(want, diagnostic.Relative(dir, in)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
