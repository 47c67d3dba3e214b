package flowcheck

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rulesPage = "../docs/use/rules.md"

// The documentation equals the pages of the rules, apart from the introduction before the first
// rule.
func TestPages_AreTheDocumentation(t *testing.T) {
	got, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(got), "\n## "+string(rules[0].name)+"\n")
	if !ok {
		t.Fatalf("%s has no rule %s", rulesPage, rules[0].name)
	}
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rules {
		page, err := Explain(string(r.name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(page, "# "+string(r.name)+"\n\n") {
			t.Errorf("the page of %s begins with another title", r.name)
		}
		b.WriteString("\n#" + page)
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
