package compat_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/compat"
	"github.com/flowgen/flowgen/internal/emit"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"golang.org/x/tools/txtar"
)

var (
	whole = flag.Bool("matrix", false, "judge every change of the matrix, not a sample")
	only  = flag.String("only", "", "judge the changes of the matrix whose names begin so; several, joined by commas")
)

// sampled is the distance between the changes that make test-all tests without -matrix. make test
// tests a third of them.
const sampled = 12

// change is a file of the matrix.
type change struct {
	name   string
	row    string
	class  string // the expected class
	blocks string // the expected behavior of the runtime: "blocks", "prefix" or "fits"
	files  map[string]string
}

// The test proves that the runtime agrees with the result of this package. Each change is recorded
// with the old code, and the whole log and every prefix of it are replayed with the new code. A
// change that blocks is never reported as safe, and a change that fits is never reported as
// breaking.
func TestVER4_TheRuntimeAgreesWithTheMatrix(t *testing.T) {
	all := changes(t)
	chosen := all
	if !*whole {
		chosen = nil
		for i, c := range all {
			if i%(sampled*depth.Stride(3)) == 0 && *only == "" || *only != "" && slices.ContainsFunc(strings.Split(*only, ","), func(begin string) bool { return strings.HasPrefix(c.name, begin) }) {
				chosen = append(chosen, c)
			}
		}
	}
	dir := module(t, chosen)
	classes := compared(t, dir, chosen)
	verdicts := judged(t, dir, chosen)
	counts := map[string]int{}
	for _, c := range chosen {
		found, v := classes[c.name], verdicts[c.name]
		class := compat.Worst(found)
		outcome := "fits"
		switch {
		case v.Full != "":
			outcome = "blocks"
		case v.Prefix != "":
			outcome = "prefix"
		}
		counts[fmt.Sprintf("%s and %s", class, outcome)]++
		report := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s: %s\nchanges: %s\nruntime: %s", c.name, fmt.Sprintf(format, args...), listed(found), v.Full+v.Prefix)
		}
		if class == compat.Safe && outcome != "fits" {
			report("called safe, and blocks")
		}
		if class == compat.Breaks && outcome != "blocks" {
			report("called breaks, and fits")
		}
		if class.String() != c.class {
			report("called %s, want %s", class, c.class)
		}
		if outcome != c.blocks {
			report("the runtime says %s, want %s", outcome, c.blocks)
		}
	}
	t.Logf("%d of %d changes: %v", len(chosen), len(all), counts)
}

// The test proves that the matrix contains a change for every row of the table.
func TestVER4_TheMatrixHasEveryRow(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range changes(t) {
		seen[c.row] = true
		if !slices.ContainsFunc(compat.Rows, func(r compat.Row) bool { return r.ID == c.row }) {
			t.Errorf("%s: there is no row %s", c.name, c.row)
		}
	}
	for _, r := range compat.Rows {
		if !seen[r.ID] {
			t.Errorf("no change of the matrix is of row %s (%s)", r.ID, r.Change)
		}
	}
}

func listed(all []compat.Change) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "\n\t%s: %s [%s]: %s: %s", filepath.Base(c.Position.String()), c.Class, c.Row, c.Subject, c.What)
	}
	return b.String()
}

// changes reads the files of the matrix.
func changes(t *testing.T) []change {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "matrix", "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatalf("find the matrix: %v", err)
	}
	var all []change
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c := change{name: strings.TrimSuffix(filepath.Base(name), ".txtar"), files: map[string]string{}}
		head := strings.Fields(strings.SplitN(string(archive.Comment), "\n", 2)[0])
		if len(head) != 3 {
			t.Fatalf("%s: the first line is %q, want row, class and outcome", name, archive.Comment)
		}
		c.row, c.class, c.blocks = head[0], head[1], head[2]
		for _, f := range archive.Files {
			c.files[f.Name] = string(f.Data)
		}
		all = append(all, c)
	}
	return all
}

// module writes a module that contains the old and the new version of each change.
func module(t *testing.T, chosen []change) string {
	t.Helper()
	dir := usermodule.New(t, nil)
	for _, c := range chosen {
		for _, side := range []string{"before", "after"} {
			at := filepath.Join(dir, identifier(c.name), side)
			shop := read(t, filepath.Join("testdata", "shop.go.txt"))
			if own, ok := c.files["package"]; ok && side == "after" {
				shop = strings.Replace(shop, "package p\n", own+"package p\n", 1)
			}
			write(t, filepath.Join(at, "shop.go"), shop)
			text := c.files["common"] + c.files[side]
			write(t, filepath.Join(at, "flow.go"), header(text)+text)
			if other, ok := c.files[side+" 2"]; ok {
				write(t, filepath.Join(at, "other.go"), header(other)+other)
			}
			write(t, filepath.Join(at, "setup.go"), setup(text+c.files[side+" 2"], side, c.files["drive"]))
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	return dir
}

func identifier(name string) string { return strings.NewReplacer("-", "_", ".", "_").Replace(name) }

// header returns a package clause with the imports that the text needs.
func header(text string) string {
	var b strings.Builder
	b.WriteString("package p\n\nimport (\n")
	for _, imported := range []struct{ mention, path string }{
		{"context.", "context"}, {"encoding/json", ""}, {"json.", "encoding/json"}, {"errors.", "errors"}, {"fmt.", "fmt"}, {"graph.", "github.com/flowgen/flowgen/runtime/workflow/graph"}, {"strings.", "strings"},
		{"slices.", "slices"}, {"limit.", "github.com/flowgen/flowgen/runtime/limit"}, {"step.Next[", "github.com/flowgen/flowgen/runtime/step"}, {"step.Later(", "github.com/flowgen/flowgen/runtime/step"}, {"testing.", "testing"}, {"time.", "time"}, {"workflow.", "github.com/flowgen/flowgen/runtime/workflow"},
		{"workflowtest.", "github.com/flowgen/flowgen/runtime/workflowtest"},
	} {
		if imported.path != "" && strings.Contains(text, imported.mention) {
			fmt.Fprintf(&b, "\t%q\n", imported.path)
		}
	}
	b.WriteString(")\n\n")
	return b.String()
}

// setup returns the functions that set up and start the workflow of a package, for the test
// program.
func setup(text, side, drive string) string {
	own := ""
	if !strings.Contains(text, "func Setup(") {
		own = "func Setup(env *workflowtest.Env) { Register(env) }\n\n"
	}
	if side == "before" {
		if drive == "" {
			drive = "drive(t, env, Flow, order)\n"
		}
		own += "func Drive(t testing.TB, env *workflowtest.Env) *workflow.Handle {\n\treturn " + drive + "}\n"
	}
	return header(own) + own
}

// compared generates the packages separately, because all have the same stored names, and returns
// the changes that this package reports for each of them.
func compared(t *testing.T, dir string, chosen []change) map[string][]compat.Change {
	t.Helper()
	set, _, err := load.Module(t.Context(), dir, []string{"./..."}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mistakes := 0
	for _, p := range set.Packages {
		m, ds := model.New(p)
		for _, d := range append(ds, p.TypeErrors(0, math.MaxInt)...) {
			if strings.Contains(d.What, "has no field or method") {
				continue // The field or method belongs to a generated machine. In all other cases the compiler reports it.
			}
			if mistakes++; mistakes < 20 {
				t.Error(d)
			}
		}
		if len(ds) > 0 {
			continue
		}
		source, err := emit.Source(m)
		if err != nil {
			t.Fatal(err)
		}
		write(t, p.Output.Path, string(source))
	}
	if mistakes > 0 {
		t.FailNow()
	}
	world := manifest.NewWorld(set.Packages)
	found := map[string][]compat.Change{}
	for _, c := range chosen {
		sides := map[string]compat.Set{}
		for _, side := range []string{"before", "after"} {
			m := world.Of("example.com/user/" + identifier(c.name) + "/" + side)
			if m == nil {
				t.Fatalf("%s has no manifest", c.name)
			}
			decoded, err := manifest.Decode(m.Encode())
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if side == "after" {
				decoded = m // The manifest of the new side contains positions.
			}
			decoded.Package = "p"
			sides[side] = compat.Set{"p": decoded}
		}
		found[c.name] = compat.Compare(sides["before"], sides["after"])
	}
	return found
}

// verdict is the result for one change. testdata/judge.go.txt writes it.
type verdict struct {
	Events       int
	Full, Prefix string
}

// perPackage is the number of changes for each package per side. One package per change would take
// minutes to compile, and one for all would occupy one processor.
const perPackage = 10

// judged runs the runtime on all changes in one test binary and returns the verdicts.
func judged(t *testing.T, dir string, chosen []change) map[string]verdict {
	t.Helper()
	var imports, list strings.Builder
	shares := min(3, 1+len(chosen)/perPackage)
	for share := range shares {
		for _, side := range []string{"before", "after"} {
			fmt.Fprintf(&imports, "\t%s%d \"example.com/user/judge/%s%d\"\n", side, share, side, share)
		}
	}
	for i, c := range chosen {
		share := i % shares
		for _, side := range []string{"before", "after"} {
			to := filepath.Join(dir, "judge", fmt.Sprint(side, share))
			put(t, filepath.Join(dir, identifier(c.name), side), to, i)
		}
		fmt.Fprintf(&list, "\t{%q, before%d.Drive_%d, before%d.Setup_%d, after%d.Setup_%d},\n", c.name, share, i, share, i, share, i)
	}
	write(t, filepath.Join(dir, "judge", "judge_test.go"), read(t, filepath.Join("testdata", "judge.go.txt")))
	write(t, filepath.Join(dir, "judge", "changes_test.go"), "package judge\n\nimport (\n"+imports.String()+")\n\nvar changes = []change{\n"+list.String()+"}\n")
	out := filepath.Join(dir, "verdicts.json")
	// The code is executed once, so its speed does not matter. Without optimization it compiles in
	// two thirds of the time.
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-vet=off", "-gcflags=example.com/user/...=-N -l -dwarf=false", "./judge")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "VERDICTS="+out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("judge the matrix: %v\n%.5000s", err, bytes.TrimSpace(said))
	}
	var verdicts map[string]verdict
	if err := json.Unmarshal([]byte(read(t, out)), &verdicts); err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// put copies the files of one package into another, and appends a number to every declared name.
func put(t *testing.T, from, to string, number int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	files := map[string]*ast.File{}
	declared := map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
		load.Declared(file, func(id *ast.Ident) { declared[id.Name] = id.Name != "_" })
	}
	for name, file := range files {
		members := map[*ast.Ident]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				members[n.Sel] = true
			case *ast.FuncDecl:
				members[n.Name] = n.Recv != nil
			case *ast.StructType:
				for _, field := range n.Fields.List {
					for _, id := range field.Names {
						members[id] = true
					}
				}
			case *ast.CompositeLit:
				if _, isMap := n.Type.(*ast.MapType); isMap {
					break
				}
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						if id, ok := pair.Key.(*ast.Ident); ok {
							members[id] = true
						}
					}
				}
			case *ast.Ident:
				if declared[n.Name] && !members[n] {
					n.Name = fmt.Sprint(n.Name, "_", number)
				}
			}
			return true
		})
		var b bytes.Buffer
		if err := format.Node(&b, fset, file); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, fmt.Sprintf("c%d_%s", number, filepath.Base(name))), b.String())
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
