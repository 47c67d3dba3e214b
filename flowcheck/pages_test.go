package flowcheck

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const rulesPage = "../docs/rules.md"

const rulesHead = "# Rules of workflow code\n\n" +
	"Workflow code runs again after every crash, and must take the same way: it may not read a clock, range over a map in the order of the day, or start a goroutine.\n" +
	"`flowgen vet` finds such mistakes before they are deployed. A report is right; what cannot be decided is silent.\n\n" +
	"```\n" +
	"go tool flowgen vet ./...               check, then judge; -advice says what is worth a look, too\n" +
	"go tool flowgen vet -diff ./...         the edits that it suggests; -fix applies them\n" +
	"go tool flowgen vet -explain maporder   the page of a rule\n" +
	"go vet -vettool=$(which flowgen) ./...  the same rules as a vet tool\n" +
	"```\n\n" +
	"Workflow code is the body of each function, method or literal that takes a `workflow.Context`. Other code is judged where workflow code calls it, and the report tells\n" +
	"the way: `tax.Total → tax.rate → time.Now (rate.go:12) reads the wall clock …`. Tests and generated files are not judged. Of other modules only the clock, random numbers,\n" +
	"input and output, logs and exits count; what an interface or a function value hides is silent.\n\n" +
	"A report is silenced by a comment on its line, above it, or in the doc comment of the function. The reason is required:\n\n" +
	"```go\n//flow:ignore clock only printed, it decides nothing\n```\n\n" +
	"Packages that this page names:\n\n```go\nimport (\n\t\"github.com/flowgen/flowgen/runtime/workflow\"\n)\n```\n\n" +
	"There is no configuration file. The exit code is 1 if there are reports, advice aside, and 2 if the command line is wrong.\n"

func TestPages_AreTheDocumentation(t *testing.T) {
	var b strings.Builder
	b.WriteString(rulesHead)
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
	got, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(got)); diff != "" {
		t.Errorf("docs/rules.md is out of date, run go test ./flowcheck -run Pages -update (-pages +file):\n%s", diff)
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
