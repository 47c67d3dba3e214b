package layers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// linkable contains the other modules that the runtime may link.
var linkable = []string{"github.com/caarlos0/env/v11", "github.com/oklog/ulid/v2", "github.com/google/go-cmp", "github.com/klauspost/compress"}

// shared contains the packages of the module outside runtime that the runtime shares with the
// generator, the admin service or the command.
var shared = []string{"internal/cron", "internal/environ", "internal/jsonschema", "internal/recent", "internal/spelling"}

// runtimePackages returns the packages of the runtime that a program may link. It omits test
// helpers.
func runtimePackages(packages map[string]*goPackage) []string {
	var roots []string
	for _, pkg := range packages {
		p, ok := local(pkg.ImportPath)
		if r, _ := ruleOf(p); ok && !pkg.DepOnly && !r.helper {
			roots = append(roots, pkg.ImportPath)
		}
	}
	slices.Sort(roots)
	return roots
}

// unwanted returns why the runtime must not link a package, or "" if it may.
func unwanted(pkg *goPackage) string {
	p, isLocal := local(pkg.ImportPath)
	switch {
	case isLocal && !matches("runtime/...", p) && !slices.Contains(shared, p):
		return "it is above the runtime"
	case isLocal:
	case pkg.ImportPath == "database/sql": // ulid uses database/sql/driver, which is allowed because it contains only interfaces
		return "it is database code"
	case pkg.ImportPath == "testing":
		return "it is for tests"
	case pkg.Standard:
	case pkg.Module == nil || !slices.Contains(linkable, pkg.Module.Path):
		return "its module is not among " + strings.Join(linkable, ", ")
	}
	if len(pkg.CgoFiles) > 0 {
		return "it uses cgo"
	}
	return ""
}

func TestSTORE2_RuntimeLinksNoStoreDriverAndNoCgo(t *testing.T) {
	packages := list(t, "./runtime/...")
	roots := runtimePackages(packages)
	// Steps in SQL transactions are in a separate package, so that other programs do not link
	// database/sql. Targets of alerts that receive HTTP requests, health checks, and execution by
	// functions are in packages for the same reason.
	apart := []string{"runtime/step/sqlstep", "runtime/alert/webhook", "runtime/codec", "runtime/health", "runtime/health/systemd", "runtime/invoke"}
	roots = slices.DeleteFunc(roots, func(p string) bool {
		p, _ = local(p)
		return slices.Contains(apart, p)
	})
	for _, want := range []string{"event", "store", "internal/replay", "workflow", "step", "shim", "worker"} {
		if !slices.Contains(roots, module+"/runtime/"+want) {
			t.Errorf("package runtime/%s does not exist: nothing is checked", want)
		}
	}
	for _, p := range reachable(packages, roots) {
		if why := unwanted(packages[p]); why != "" {
			t.Errorf("the runtime links %s: %s: %s", p, why, chain(packages, roots, p))
		}
	}
}

// reachable returns the roots and all packages that they import, sorted. It does not follow the
// imports of unwanted packages.
func reachable(packages map[string]*goPackage, roots []string) []string {
	seen := map[string]bool{}
	var visit func(p string)
	visit = func(p string) {
		if seen[p] || packages[p] == nil { // "C" and "unsafe" are not in packages
			return
		}
		seen[p] = true
		if unwanted(packages[p]) != "" {
			return
		}
		for _, imported := range packages[p].Imports {
			visit(imported)
		}
	}
	for _, root := range roots {
		visit(root)
	}
	all := make([]string, 0, len(seen))
	for p := range seen {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// TestOPS2_OnlyTheConsoleLinksTemplates proves that only the console links html/template. The
// linker keeps all exported methods in programs that use templates.
func TestOPS2_OnlyTheConsoleLinksTemplates(t *testing.T) {
	packages := list(t, "./runtime/...", "./admin/...", "./memstore", "./sqlitestore", "./redisstore")
	var roots []string
	for _, p := range reachable(packages, runtimePackages(packages)) {
		if name, ok := local(p); ok && name != "admin/console" {
			roots = append(roots, p)
		}
	}
	if !slices.Contains(roots, module+"/runtime/worker") {
		t.Fatalf("only %d packages are checked", len(roots))
	}
	for _, to := range []string{"html/template", "text/template"} {
		if way := chain(packages, roots, to); strings.Contains(way, " → ") {
			t.Errorf("what is not the console links %s: %s", to, way)
		}
	}
}

func TestRuntime_FindsADriverBehindOthers(t *testing.T) {
	driver := &goPackage{ImportPath: "d", Imports: []string{"d/c"}}
	packages := map[string]*goPackage{
		module + "/runtime/worker": {ImportPath: module + "/runtime/worker", Imports: []string{"log", "C"}},
		"log":                      {ImportPath: "log", Standard: true, Imports: []string{"d"}},
		"d":                        driver,
		"d/c":                      {ImportPath: "d/c"},
	}
	roots := runtimePackages(packages)
	if diff := cmp.Diff([]string{module + "/runtime/worker"}, roots); diff != "" {
		t.Errorf("roots differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d", module + "/runtime/worker", "log"}, reachable(packages, roots)); diff != "" {
		t.Errorf("reachable packages differ (-want +got):\n%s", diff)
	}
}

func TestRuntime_RefusesEachKindOfDriver(t *testing.T) {
	of := func(path string) *struct{ Path string } { return &struct{ Path string }{path} }
	tests := map[string]struct {
		pkg  goPackage
		want string
	}{
		"standard library": {goPackage{ImportPath: "log/slog", Standard: true}, ""},
		"its cgo":          {goPackage{ImportPath: "net", Standard: true, CgoFiles: []string{"cgo.go"}}, "cgo"},
		"its library":      {goPackage{ImportPath: "github.com/oklog/ulid/v2", Module: of("github.com/oklog/ulid/v2")}, ""},
		"itself":           {goPackage{ImportPath: module + "/runtime/event"}, ""},
		"a store":          {goPackage{ImportPath: module + "/memstore"}, "above the runtime"},
		"the generator":    {goPackage{ImportPath: module + "/internal/emit"}, "above the runtime"},
		"SQL":              {goPackage{ImportPath: "database/sql", Standard: true}, "database code"},
		"testing":          {goPackage{ImportPath: "testing", Standard: true}, "for tests"},
		"a driver":         {goPackage{ImportPath: "modernc.org/sqlite/lib", Module: of("modernc.org/sqlite")}, "not among"},
		"cgo of its own":   {goPackage{ImportPath: module + "/runtime/event", CgoFiles: []string{"x.go"}}, "cgo"},
		"cgo of a library": {goPackage{ImportPath: "github.com/oklog/ulid/v2", Module: of("github.com/oklog/ulid/v2"), CgoFiles: []string{"x.go"}}, "cgo"},
	}
	for name, tt := range tests {
		if got := unwanted(&tt.pkg); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestOPS4_OnlyTheModulesForItImportOpenTelemetry(t *testing.T) {
	packages := list(t, "./...")
	var roots []string
	for _, pkg := range packages {
		if _, ok := local(pkg.ImportPath); ok && !pkg.DepOnly {
			roots = append(roots, pkg.ImportPath)
		}
	}
	if len(roots) < 50 {
		t.Errorf("%d packages were looked at, want those of the whole module", len(roots))
	}
	for path := range packages {
		if strings.HasPrefix(path, "go.opentelemetry.io/") {
			t.Errorf("the module imports %s: %s", path, chain(packages, roots, path))
		}
	}
}

func TestSTORE2_RuntimeBuildsForWASI(t *testing.T) {
	roots := runtimePackages(list(t, "./runtime/..."))
	if len(roots) < 7 {
		t.Errorf("only %q are checked", roots)
	}
	// Only type-check: compiling the standard library for this platform takes half a minute.
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Dir:  "../..", Env: append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"),
	}, roots...)
	if err != nil || len(all) != len(roots) {
		t.Fatalf("%d of %d packages are there for it: %v", len(all), len(roots), err)
	}
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
	})
}

func TestRuntime_HasNoFilesOfItsOwn(t *testing.T) {
	files, err := filepath.Glob("../../runtime/*.go")
	if err != nil || len(files) > 0 {
		t.Errorf("runtime holds %q (%v), want packages only", files, err)
	}
	if _, err := os.Stat("../../runtime/event"); err != nil {
		t.Errorf("the runtime was not found: %v", err)
	}
}
