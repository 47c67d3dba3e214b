package cli

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/environ"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var update = flag.Bool("update", false, "write the table of docs/use/configuration.md")

// structs contains the config structs of all programs, with the files that declare them.
var structs = []struct {
	of     reflect.Type
	file   string
	prefix string // of the variables of all fields whose form a variable can have; empty: only fields with a tag have one
}{
	{reflect.TypeFor[store.Location](), "runtime/store/environment.go", ""},
	{reflect.TypeFor[environment](), "cmd/flowctl/cli/config.go", ""},
	{reflect.TypeFor[workflow.ClientConfig](), "runtime/workflow/client.go", "FLOWGEN_CLIENT_"},
	{reflect.TypeFor[worker.Config](), "runtime/worker/config.go", "FLOWGEN_WORKER_"},
}

// forms contains the types that a variable can set, as the table calls them.
var forms = map[string]string{
	"int": "number", "time.Duration": "duration", "bool": "`true` or `false`", "[]string": "names", "map[string]int": "`name=number`", "string": "text",
}

// The test proves that the page contains a row for each field that has a variable, and that all
// fields of the client and the worker that could have one do.
func TestOPS6_ThePageHasTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| variable | form | default | field |\n|---|---|---|---|\n")
	var names []string
	for _, s := range structs {
		comments := commentsOf(t, filepath.Join("..", "..", "..", s.file), s.of.Name())
		for i := range s.of.NumField() {
			f := s.of.Field(i)
			name, form := f.Tag.Get("env"), forms[f.Type.String()]
			if s.prefix != "" && form != "" {
				if want := s.prefix + words(f.Name); name != want {
					t.Errorf("%v.%s has the variable %q, want the tag `env:\"%s\"`, and its name in package environ", s.of, f.Name, name, want)
				}
			}
			if name == "" {
				continue
			}
			names = append(names, name)
			row := []string{"`" + name + "`", form, f.Tag.Get("default"), comments[f.Name]}
			switch {
			case f.Tag.Get("secret") == "url":
				row[1] = "URL"
			case f.Tag.Get("form") != "":
				row[1] = f.Tag.Get("form")
			}
			if f.Tag.Get("secret") != "" {
				row[0] += ", `" + name + "_FILE`"
			}
			if row[3] = ofField.ReplaceAllString(row[3], "`$0`"); row[2] != "" {
				row[3] = ofDefault.ReplaceAllString(row[3], "")
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	b.WriteString("\n")
	slices.Sort(names)
	known := environ.Names()
	slices.Sort(known)
	if diff := cmp.Diff(names, known); diff != "" {
		t.Errorf("package environ knows other variables than the structs have (-structs +known):\n%s", diff)
	}
	comparePage(t, b.String())
}

// Parts of comments: the name of the field at the beginning, and the default, which has a column.
var (
	ofField   = regexp.MustCompile(`^\w+`)
	ofDefault = regexp.MustCompile(` (The default is \d|Zero means )[^.]*\.`)
)

// comparePage compares the part of the page between its marks, or writes it.
func comparePage(t *testing.T, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "..", "docs", "use", "configuration.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- variables -->\n", "<!-- end of variables -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of %s is not that of the structs: run go test ./cmd/flowctl/cli -run ThePage -update (-want +got):\n%s", path, diff)
	}
}

// The test proves that exactly the variables whose tag marks them as secret can be in a file.
func TestOPS6_OnlySecretsCanBeInAFile(t *testing.T) {
	empty := struct{}{}
	for _, s := range structs {
		for i := range s.of.NumField() {
			f := s.of.Field(i)
			name := f.Tag.Get("env") + "_FILE"
			if f.Tag.Get("env") == "" {
				continue
			}
			t.Setenv(name, "secret.txt")
			if err := environ.Load(&empty); (err == nil) != (f.Tag.Get("secret") != "") {
				t.Errorf("%s: error %v, want one unless the variable is secret", name, err)
			}
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var word = regexp.MustCompile(`[A-Z][a-z]*`)

// words returns a name such as MaxPayload as MAX_PAYLOAD.
func words(name string) string {
	return strings.ToUpper(strings.Join(word.FindAllString(name, -1), "_"))
}

// commentsOf returns the comments of the fields of a struct as lines of Markdown.
func commentsOf(t *testing.T, file, name string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	object := parsed.Scope.Lookup(name) //nolint:staticcheck // The file suffices.
	if object == nil {
		t.Fatalf("%s declares no %s", file, name)
	}
	comments := map[string]string{}
	for _, f := range object.Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		p := comment.Parser{LookupSym: func(string, string) bool { return true }}
		text := (&comment.Printer{TextWidth: -1}).Text(p.Parse(f.Doc.Text()))
		for _, n := range f.Names {
			comments[n.Name] = strings.TrimSpace(string(text))
		}
	}
	return comments
}
