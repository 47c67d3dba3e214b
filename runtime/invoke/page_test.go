package invoke_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/invoke"
)

// ofDispatcher contains the codes that no handler sends.
var ofDispatcher = map[string]bool{invoke.CodeNotFunction: true, invoke.CodeUnreachable: true, invoke.CodeRedirect: true, invoke.CodeInvalidRoute: true, invoke.CodeNoProgress: true}

// TestPage_HasAllCodesWithTheirStatus proves that docs/use/functions.md explains each error code, and
// names the status that the handler sends with it. The codes of the dispatcher have no status.
func TestPage_HasAllCodesWithTheirStatus(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) != 1 {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		row := "\n| `" + code + "` | "
		if e := (invoke.Error{Code: code}); !ofDispatcher[code] {
			row += strconv.Itoa(e.Status()) + " | "
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/use/functions.md has no row that begins with %q", strings.TrimSpace(row))
		}
		return true
	})
	if found < 20 {
		t.Errorf("%d codes were found in the source: too few to be all", found)
	}
}
