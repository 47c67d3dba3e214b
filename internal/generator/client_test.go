package generator_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

// withClient is the package orders with a directive for a client.
var withClient = "// Package orders sells.\n//\n//flow:package client=ordersclient\n" + orders

const clientFile = "orders/ordersclient/flow_client.go"

// ofOrders returns the source of a package with one workflow over the type Order. The given
// declarations must declare Order.
func ofOrders(imports, declarations string) string {
	if imports != "" {
		imports = "\n\t\"" + strings.Join(strings.Fields(imports), "\"\n\t\"") + "\"\n"
	}
	return "//flow:package client=ordersclient\npackage orders\n\nimport (" + imports + "\n\t\"github.com/flowgen/flowgen/runtime/workflow\"\n)\n\n" +
		"//flow:workflow\nfunc fulfil(ctx workflow.Context, order Order) error { return nil }\n\n" + declarations
}

func goIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestGEN5_ClientIsWrittenOnceAndIsUnderCheck(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": withClient})
	want := []generator.Change{{File: "orders/flow_gen.go", Action: generator.Missing}, {File: clientFile, Action: generator.Missing}}
	if d := cmp.Diff(want, check(t, dir).Changes); d != "" {
		t.Errorf("changes of a check at first (-want +got):\n%s", d)
	}
	want = []generator.Change{{File: "orders/flow_gen.go", Action: generator.Wrote}, {File: clientFile, Action: generator.Wrote}}
	if d := cmp.Diff(want, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes of the first run (-want +got):\n%s", d)
	}
	build(t, dir)
	if d := cmp.Diff([]generator.Change{}, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes of the second run (-want +got):\n%s", d)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(withClient, "ID string", "ID, Note string", 1))
	changes := check(t, dir).Changes
	if len(changes) != 1 || changes[0].File != clientFile || changes[0].Action != generator.Stale || !strings.Contains(changes[0].Diff, "Note string") {
		t.Errorf("changes of a check after the type did are %v, want a stale client", changes)
	}
}

func TestGEN5_MendsWhateverTheClientHolds(t *testing.T) {
	files := map[string]string{"orders/orders.go": withClient}
	mended(t, files, clientFile, map[string]func(want string) string{
		"conflict":       func(want string) string { return "<<<<<<< HEAD\n" + want + "=======\n" + want + ">>>>>>> branch\n" },
		"nothing at all": func(string) string { return "" },
		"half a file":    func(want string) string { return want[:len(want)/2] },
		"another package name": func(want string) string {
			return strings.Replace(want, "package orders", "package before", 1)
		},
	})
	mended(t, files, clientFile, map[string]func(want string) string{
		"an import cycle": func(want string) string {
			return strings.Replace(want, "const _ =", "import _ \"example.com/user/orders0\"\n\nconst _ =", 1)
		},
	})
}

func TestGEN5_RemovesAClientThatNobodyAsksFor(t *testing.T) {
	cases := map[string]map[string]string{ // The maps contain the files after the change. An empty file is removed.
		"no client=":        {"orders/orders.go": orders},
		"no directives":     {"orders/orders.go": "package orders\n"},
		"no package":        {"orders/orders.go": "", "orders/flow_gen.go": ""},
		"another directory": {"orders/orders.go": strings.Replace(withClient, "client=ordersclient", "client=../api", 1)},
	}
	names := slices.Sorted(maps.Keys(cases))
	dir := usermodule.New(t, map[string]string{"other/other.go": "package other\n"})
	for i := range names {
		usermodule.Write(t, dir, ownOrders(i, "orders/orders.go"), ownOrders(i, withClient))
	}
	mustRun(t, dir)
	for i, name := range names {
		for file, text := range cases[name] {
			file = ownOrders(i, file)
			if text != "" {
				usermodule.Write(t, dir, file, ownOrders(i, text))
			} else if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes := check(t, dir).Changes
	mustRun(t, dir)
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			leftover := generator.Change{File: ownOrders(i, clientFile), Action: generator.Leftover}
			if !contains(changes, leftover) {
				t.Errorf("changes of a check are %v, want %v", changes, leftover)
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.Dir(leftover.File))); !os.IsNotExist(err) {
				t.Errorf("the directory of the client is still there (%v)", err)
			}
		})
	}
}

func contains(changes []generator.Change, want generator.Change) bool {
	return slices.Contains(changes, want)
}

func TestGEN5_FlagWritesAClientThatIsKeptUpToDate(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders})
	flag := func(check bool) *generator.Report {
		report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./orders"}, Client: "api/ordersapi", Check: check})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	const file = "api/ordersapi/flow_client.go"
	if r := flag(true); !contains(r.Changes, generator.Change{File: file, Action: generator.Missing}) || len(r.Diagnostics) > 0 {
		t.Errorf("the report of a check is %+v, want a missing client", r)
	}
	if r := flag(false); !contains(r.Changes, generator.Change{File: file, Action: generator.Wrote}) {
		t.Errorf("the report is %+v, want a client that was written", r)
	}
	if changes := check(t, dir).Changes; len(changes) > 0 {
		t.Errorf("changes without the flag are %v, want none", changes)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(orders, "ID string", "Name string", 1))
	if d := cmp.Diff([]generator.Change{{File: file, Action: generator.Wrote}}, mustRun(t, dir).Changes); d != "" {
		t.Errorf("changes without the flag, after the type changed (-want +got):\n%s", d)
	}
	usermodule.Write(t, dir, "orders/orders.go", "package orders\n")
	if changes := mustRun(t, dir).Changes; !contains(changes, generator.Change{File: file, Action: generator.Removed}) {
		t.Errorf("changes without directives are %v, want the client removed", changes)
	}
}

func TestGEN5_SaysWhyADirectoryCannotHoldAClient(t *testing.T) {
	files := map[string]string{
		"orders/orders.go": orders, "plain/plain.go": "package plain\n", "own/flow_client.go": "package own\n", "file": "text\n",
		"nested/go.mod": "module example.com/nested\n", "tested/x_test.go": "package tested\n",
	}
	dir := usermodule.New(t, files)
	wants := map[string]string{
		"../elsewhere":  "outside of module example.com/user",
		"/elsewhere":    "outside of module example.com/user",
		"nested/client": "another one begins there",
		"plain":         "holds plain.go",
		"tested":        "holds x_test.go",
		"own":           "was not generated by flowgen",
		"orders":        "in the package itself",
		"orders-client": "would be called orders-client",
		"main":          "would be called main",
		".":             "which is no name for a package",
		"file":          "cannot be read",
		"file/client":   "cannot be read",
	}
	for _, client := range depth.Sample(slices.Sorted(maps.Keys(wants)), 3) {
		want := wants[client]
		t.Run(client, func(t *testing.T) {
			report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./orders"}, Client: client})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].String(), want) {
				t.Errorf("diagnostics are %v, want one with %q", report.Diagnostics, want)
			}
		})
	}
	for name, text := range files {
		if got := read(t, dir, name); got != text {
			t.Errorf("%s became\n%s", name, got)
		}
	}
}

func TestGEN5_FlagIsForOnePackage(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": orders, "shop/shop.go": strings.Replace(orders, "package orders", "package shop", 1)})
	report, err := generator.Run(t.Context(), generator.Config{Dir: dir, Patterns: []string{"./..."}, Client: "api"})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].What, "-client is for one package, and 2") {
		t.Errorf("diagnostics are %v, want one about the flag", report.Diagnostics)
	}
	usermodule.Write(t, dir, "orders/orders.go", strings.Replace(withClient, "client=ordersclient", "client=../api", 1))
	usermodule.Write(t, dir, "shop/shop.go", strings.Replace(strings.Replace(withClient, "client=ordersclient", "client=../api", 1), "package orders", "package shop", 1))
	report = run(t, dir)
	if len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].What, "where that of package example.com/user/orders does") || report.Diagnostics[0].Line == 0 {
		t.Errorf("diagnostics are %v, want one about the common directory", report.Diagnostics)
	}
}

// The test proves that the generator reports a directory that it cannot write to, and writes all
// other files.
func TestGEN5_ReportsADirectoryThatCannotBeWritten(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"orders/orders.go": withClient})
	if err := os.MkdirAll(filepath.Join(dir, clientFile), 0o755); err != nil { // A directory has the name of the file.
		t.Fatal(err)
	}
	report := run(t, dir)
	if len(report.Diagnostics) != 1 || !strings.Contains(report.Diagnostics[0].File, clientFile) {
		t.Errorf("diagnostics are %v, want one about %s", report.Diagnostics, clientFile)
	}
	if d := cmp.Diff([]generator.Change{{File: "orders/flow_gen.go", Action: generator.Wrote}}, report.Changes); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

// The test proves that copied types have the same stored form as the originals. The generator
// type-checks a client before writing it, so these cases compile. A program compares the stored
// forms.
func TestGEN5_TypesAreCopiedAsTheyAreStored(t *testing.T) {
	files, imports, cases, want := map[string]string{}, "", "", ""
	for _, tt := range depth.Sample([]struct{ name, imports, declarations, value string }{
		{"recursion", "", "type Order struct{ Next *Order; All map[string][]Order }", `{"Next":{"Next":null,"All":null},"All":{"a":[{"Next":null,"All":null}]}}`},
		{"generic", "", "type Number interface{ ~int | ~float64 }\ntype Pair[K comparable, V Number] struct{ K K; V []V }\ntype Cents int\ntype Order = Pair[string, Cents]", `{"K":"a","V":[1,2]}`},
		{"array", "", "const half = 2\nconst size = half * 2\ntype Order [size]int", `[1,2,3,4]`},
		{"embedded", "", "type base struct{ A int }\ntype Kind string\ntype Order struct{ base; *Kind; B int `json:\"b\"` }", `{"A":1,"Kind":"k","b":2}`},
		{"unexported", "os", "type Order struct{ A int; file, other *os.File `json:\"-\"`; _ int }\nfunc (o Order) Close() error { return o.file.Close() }", `{"A":1}`},
		{"plain", "encoding/json", "type Order struct{ a int }\nfunc (o Order) MarshalJSON() ([]byte, error) { type plain struct{ A int }; return json.Marshal(plain{o.a}) }\nfunc (o *Order) UnmarshalJSON(b []byte) error { var p struct{ A int }; err := json.Unmarshal(b, &p); o.a = p.A; return err }", `{"A":3}`},
		{"used fields", "strconv", "type inner struct{ n, m int }\ntype outer struct{ in inner; spare int }\ntype Order struct{ o outer }\nfunc (o Order) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(o.o.in.n), 10), nil }\nfunc (o *Order) UnmarshalText(b []byte) (err error) { o.o.in.n, err = strconv.Atoi(string(b)); return err }", `"12"`},
		{"used types", "strconv", "type inner struct{ n, m int }\ntype outer struct{ in inner; spare int }\ntype Order struct{ o outer }\nfunc (o Order) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(o.o.in.n), 10), nil }\nfunc (o *Order) UnmarshalText(b []byte) error { n, err := strconv.Atoi(string(b)); o.o = outer{inner{n, 2}, 1}; return err }", `"12"`},
		{"enumeration", "fmt", "type State uint8\nconst (\n\tA State = iota + 3\n\tB\n)\nfunc (s State) MarshalText() ([]byte, error) { if s != B { return nil, fmt.Errorf(\"no\") }; return []byte(\"b\"), nil }\nfunc (s *State) UnmarshalText([]byte) error { *s = B; return nil }\ntype Order map[State]int", `{"b":1}`},
		{"other modules", "time github.com/oklog/ulid/v2", "type At time.Time\ntype Order struct{ ID ulid.ULID; T time.Time; D time.Duration; X At `json:\"-\"` }",
			`{"ID":"01ARZ3NDEKTSV4RRFFQ69G5FAV","T":"2020-01-01T00:00:00Z","D":5}`},
		{"omitzero", "", "type N int\nfunc (n N) IsZero() bool { return n == 7 }\ntype Order struct{ A N `json:\"a,omitzero\"`; B N `json:\"b,omitzero\"` }", `{"a":0,"b":1}`},
	}, 2) {
		name := tt.name
		pkg := "c" + strings.ReplaceAll(name, " ", "")
		files[pkg+"/orders.go"] = strings.Replace(ofOrders(tt.imports, tt.declarations), "package orders", "package "+pkg, 1)
		imports += fmt.Sprintf("\t\"example.com/user/%s\"\n\t%sclient \"example.com/user/%[1]s/ordersclient\"\n", pkg, pkg)
		cases += fmt.Sprintf("\tcompare(%q, %q, new(%s.Order), new(%[3]sclient.Order))\n", name, tt.value, pkg)
		want += fmt.Sprintf("%s: %s and %[2]s\n", name, tt.value)
	}
	files["compare/main.go"] = "package main\n\nimport (\n\t\"encoding/json\"\n\t\"fmt\"\n\n" + imports + ")\n\nfunc main() {\n" + cases + `}

func compare(name, value string, original, copied any) {
	var stored []string
	for _, v := range []any{original, copied} {
		if err := json.Unmarshal([]byte(value), v); err != nil {
			panic(err)
		}
		data, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		stored = append(stored, string(data))
	}
	fmt.Println(name + ": " + stored[0] + " and " + stored[1])
}
`
	dir := usermodule.New(t, files)
	mustRun(t, dir)
	if d := cmp.Diff(want, goIn(t, dir, "run", "./compare")); d != "" {
		t.Errorf("what originals and copies are stored as (-want +got):\n%s", d)
	}
}

func TestGEN5_ClientDoesNotImportWhatTheImplementationDoes(t *testing.T) {
	dir := usermodule.New(t, map[string]string{
		"db/db.go": "package db\n\nimport \"database/sql\"\n\n// Rows are not for clients.\ntype Rows struct{ *sql.Rows }\n",
		"orders/orders.go": ofOrders("example.com/user/db example.com/user/kinds", `// Order is one.
type Order struct{ K kinds.Kind; rows *db.Rows `+"`json:\"-\"`"+` }
`),
		"kinds/kinds.go": "package kinds\n\nimport \"example.com/user/db\"\n\n// Kind is copied.\ntype Kind string\n\n// A is a kind.\nconst A Kind = \"a\"\n\nvar _ db.Rows\n",
	})
	mustRun(t, dir)
	deps := goIn(t, dir, "list", "-deps", "./orders/ordersclient")
	for _, path := range []string{"example.com/user/orders\n", "example.com/user/db\n", "example.com/user/kinds\n", "/runtime/worker\n"} {
		if strings.Contains(deps, path) {
			t.Errorf("the client links %s", path)
		}
	}
	if text := read(t, dir, clientFile); !strings.Contains(text, "// A is a kind.\nconst A Kind = \"a\"") {
		t.Errorf("the client lacks the constant of the type:\n%s", text)
	}
	build(t, dir)
}

func TestGEN5_SaysWhatAClientCannotHave(t *testing.T) {
	billing := "package billing\n\nimport \"example.com/user/billing/rates\"\n\n// Fee is stored by a function.\ntype Fee struct{ C int }\n\n// MarshalText is that.\nfunc (f Fee) MarshalText() ([]byte, error) { return rates.Text(f.C), nil }\n\n// UnmarshalText reads it.\nfunc (f *Fee) UnmarshalText(b []byte) error { return nil }\n"
	rates := "package rates\n\n// Text writes.\nfunc Text(int) []byte { return nil }\n"
	links := "package rates\n\nimport _ \"github.com/flowgen/flowgen/runtime/worker\"\n\n// Text writes.\nfunc Text(int) []byte { return nil }\n"
	cases := map[string]struct {
		files map[string]string
		want  string // empty if no diagnostic is expected
	}{
		"imported instead": {map[string]string{"billing/billing.go": billing, "billing/rates/rates.go": rates,
			"orders/orders.go": ofOrders("example.com/user/billing", "type Order struct{ F billing.Fee }\n")}, ""},
		"links a worker": {map[string]string{"billing/billing.go": billing, "billing/rates/rates.go": links,
			"orders/orders.go": ofOrders("example.com/user/billing", "type Order struct{ F billing.Fee }\n")},
			"billing/billing.go:9:53: the client cannot have type Fee with its method MarshalText, which calls Text: move it to a package of its own, without directives, which the client imports; it cannot import example.com/user/billing, because that links the implementation of workflows or steps"},
		"generated elsewhere": {map[string]string{"billing/billing.go": "package billing\n\nimport \"github.com/flowgen/flowgen/runtime/workflow\"\n\n//flow:workflow\nfunc transfer(ctx workflow.Context, from, to int) error { return nil }\n",
			"orders/orders.go": ofOrders("example.com/user/billing", "type Order struct{ F billing.TransferInput }\n")},
			"orders/orders.go:13:22: the client cannot have TransferInput of package example.com/user/billing, which is generated: declare a type of your own and convert"},
		"two names": {map[string]string{"billing/billing.go": "package billing\n\n// Line is another.\ntype Line struct{ B int }\n",
			"orders/orders.go": ofOrders("example.com/user/billing", "type Line struct{ A int }\n\ntype Order struct{ L Line; M billing.Line }\n")}, ""},
		"two definitions": {map[string]string{"billing/billing.go": "package billing\n\nimport _ \"github.com/flowgen/flowgen/runtime/worker\"\n\n// Line is another.\ntype Line struct{ B int }\n",
			"orders/orders.go": ofOrders("example.com/user/billing", "type Line struct{ A int }\n\ntype Order struct{ L Line; M billing.Line }\n")},
			"billing/billing.go:6:6: the client cannot have Line of package example.com/user/billing beside that of package example.com/user/orders: rename one of them; it cannot import example.com/user/billing, because that links the implementation of workflows or steps"},
	}
	names := slices.Sorted(maps.Keys(cases))
	// Each case has its own packages, such as orders0 and billing0, so that all cases are loaded
	// together.
	own := func(i int, text string) string {
		return strings.NewReplacer("orders", fmt.Sprint("orders", i), "billing", fmt.Sprint("billing", i)).Replace(text)
	}
	dir := usermodule.New(t, nil)
	for i, name := range names {
		for file, text := range cases[name].files {
			usermodule.Write(t, dir, own(i, file), own(i, text))
		}
	}
	diagnostics := run(t, dir).Diagnostics
	wants, compile := 0, []string{"vet"}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range diagnostics {
				if strings.HasPrefix(d.File, own(i, "orders/")) || strings.HasPrefix(d.File, own(i, "billing/")) {
					got = append(got, d.String())
				}
			}
			if text, want := strings.Join(got, "\n"), own(i, cases[name].want); text != want {
				t.Errorf("diagnostics are\n%s\nwant\n%s", text, want)
			}
		})
		if cases[name].want == "" {
			compile = append(compile, own(i, "./orders/..."))
		} else {
			wants++
		}
	}
	if len(diagnostics) != wants {
		t.Errorf("there are %d diagnostics, want %d: %v", len(diagnostics), wants, diagnostics)
	}
	goIn(t, dir, compile...)
}
