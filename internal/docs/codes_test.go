package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestErrorsHasAllCodes proves that errors.md or problems.md explains each error code.
func TestErrorsHasAllCodes(t *testing.T) {
	errorsPage, err := os.ReadFile("../../docs/use/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	problems, err := os.ReadFile("../../docs/use/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(errorsPage) + string(problems)
	found := 0
	for _, file := range []string{"../../runtime/event/event.go", "../../admin/problem.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) != 1 {
				return true
			}
			value, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			code, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if !strings.Contains(page, "`"+code+"`") && !strings.Contains(page, "\n## "+strings.ToLower(code)+"\n") {
				t.Errorf("docs/use/errors.md and problems.md have no code %q (%s of %s)", code, spec.Names[0].Name, file)
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("%d codes were found in the source: too few to be all", found)
	}
}
