package flowcheck

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rulesPage = "../docs/use/rules.md"

// The test proves that the table in the documentation lists all rules, with the first sentences of
// their pages.
func TestPages_AreListedByTheDocumentation(t *testing.T) {
	got, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	const table = "\n| rule | finds |\n|---|---|\n"
	head, _, ok := strings.Cut(string(got), table)
	if !ok {
		t.Fatalf("%s has no table of rules", rulesPage)
	}
	var b strings.Builder
	b.WriteString(head + table)
	for _, r := range rules {
		page, err := Explain(string(r.name))
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(page, "# "+string(r.name)+"\n\n")
		if !ok {
			t.Errorf("the page of %s begins with another title", r.name)
		}
		summary, _, _ := strings.Cut(rest, "\n")
		fmt.Fprintf(&b, "| [%s](../../flowcheck/pages/%s.md) | %s |\n", r.name, r.name, summary)
	}
	if *update {
		if err := os.WriteFile(rulesPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("docs/use/rules.md is out of date, run go test ./flowcheck -run Pages -update (-pages +file):\n%s", diff)
	}
}

func TestPages_ThereIsNoneWithoutRule(t *testing.T) {
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".md"); !known(Rule(name)) {
			t.Errorf("there is no rule %s, but a page", name)
		}
	}
	if _, err := Explain("clocks"); err == nil || !strings.Contains(err.Error(), "maporder") {
		t.Errorf("got %v, want an error that names the rules", err)
	}
}
