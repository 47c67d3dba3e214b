package layers_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImports_RunDownwardsOnly(t *testing.T) {
	packages := list(t, "./...", "./admin/jwtauth/...", "./cloudblobs/...", "./cloudblobs/servers/...", "./otelflow/...", "./lambdaflow/...", "./lab/...", "./cmd/flowctl/...", "./flowcheck/golangci/...", "./runtime/step/sqlstep/databases/...")
	for _, r := range rules {
		if p := strings.TrimSuffix(r.packages, "/..."); r.required && packages[module+"/"+p] == nil {
			t.Errorf("package %s does not exist: its rule checks nothing", p)
		}
	}
	for _, v := range violations(packages) {
		t.Error(v)
	}
}

func TestImports_NamesEveryOffender(t *testing.T) {
	pkg := func(imports ...string) *goPackage { return &goPackage{Imports: imports} }
	ulid := &goPackage{Module: &struct{ Path string }{"github.com/oklog/ulid/v2"}}
	tests := map[string]struct {
		from     string
		packages *goPackage
		want     string // part of the violation; empty if the import is allowed
	}{
		"event and its library":    {"runtime/event", pkg("time", "github.com/oklog/ulid/v2"), ""},
		"event and another":        {"runtime/event", pkg("example.com/x"), "example.com/x"},
		"event and anything here":  {"runtime/event", pkg(module + "/runtime/store"), "runtime/store"},
		"store and a library":      {"runtime/store", pkg("github.com/oklog/ulid/v2"), "ulid"},
		"store knows workflow":     {"memstore", pkg(module + "/runtime/workflow"), "runtime/workflow"},
		"store knows worker":       {"redisstore", pkg(module + "/runtime/worker"), "runtime/worker"},
		"store knows a store":      {"sqlitestore", pkg(module + "/memstore"), "memstore"},
		"store and its parts":      {"sqlitestore", pkg(module+"/sqlitestore/schema", module+"/runtime/store"), ""},
		"replay does not store":    {"runtime/internal/replay", pkg(module + "/runtime/store"), "runtime/store"},
		"workflow and replay":      {"runtime/workflow", pkg(module+"/runtime/internal/replay", module+"/runtime/store"), ""},
		"workflow knows step":      {"runtime/workflow", pkg(module + "/runtime/step"), "runtime/step"},
		"ops and workflow":         {"runtime/ops", pkg(module+"/runtime/internal/flow", module+"/runtime/workflow"), ""},
		"workflow knows ops":       {"runtime/workflow", pkg(module + "/runtime/ops"), "runtime/ops"},
		"worker knows ops":         {"runtime/worker", pkg(module + "/runtime/ops"), "runtime/ops"},
		"step and workflow":        {"runtime/step", pkg(module + "/runtime/workflow"), ""},
		"step and its part":        {"runtime/step/sqlstep", pkg("database/sql", module+"/runtime/step"), ""},
		"shim knows worker":        {"runtime/shim", pkg(module + "/runtime/worker"), "runtime/worker"},
		"worker knows a store":     {"runtime/worker", pkg(module + "/memstore"), "memstore"},
		"worker and its test kit":  {"runtime/worker", pkg(module + "/runtime/workflowtest"), "it is for tests"},
		"worker and the suite":     {"runtime/worker", pkg(module + "/runtime/store/storetest"), "it is for tests"},
		"shipped and testing":      {"runtime/shim", pkg("testing"), "it is for tests"},
		"generator and goleak":     {"internal/emit", pkg("go.uber.org/goleak"), "it is for tests"},
		"generator and testutil":   {"internal/emit", pkg(module + "/internal/testutil"), "it is for tests"},
		"generator knows runtime":  {"internal/emit", pkg(module + "/runtime/shim"), "runtime/shim"},
		"suite and testing":        {"runtime/store/storetest", pkg("testing", module+"/runtime/store"), ""},
		"test kit and memory":      {"runtime/workflowtest", pkg("testing", module+"/memstore"), ""},
		"test kit and redis":       {"runtime/workflowtest", pkg(module + "/redisstore"), "redisstore"},
		"example and all":          {"examples/quickstart", pkg(module+"/runtime/worker", module+"/redisstore"), ""},
		"example and test kit":     {"examples/quickstart", pkg(module + "/runtime/workflowtest"), "it is for tests"},
		"client knows the API":     {"admin/remote", pkg(module + "/admin/api"), "admin/api"},
		"API and a library":        {"admin/api", pkg("example.com/x"), "example.com/x"},
		"API and the suite":        {"admin/api", pkg(module + "/admin/admintest"), "it is for tests"},
		"worker knows admin":       {"runtime/worker", pkg(module + "/admin"), "admin"},
		"a name that only begins":  {"memstoreextra", pkg(), "no place"},
		"a package without a rule": {"pkg/util", pkg(), "no place"},
		"the root":                 {".", pkg(), "no place"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.packages.ImportPath = strings.TrimSuffix(module+"/"+tt.from, "/.")
			got := violations(map[string]*goPackage{
				tt.packages.ImportPath:         tt.packages,
				"github.com/oklog/ulid/v2":     ulid,
				"example.com/x":                {Module: &struct{ Path string }{"example.com/x"}},
				"testing":                      {Standard: true},
				"database/sql":                 {Standard: true},
				"github.com/google/go-cmp/cmp": {Module: &struct{ Path string }{"github.com/google/go-cmp"}},
			})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("violations %q, want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.from+" ") || !strings.Contains(got[0], tt.want)):
				t.Errorf("violations %q, want one of %s about %q", got, tt.from, tt.want)
			}
		})
	}
}

func TestChain_IsTheShortestWay(t *testing.T) {
	packages := map[string]*goPackage{
		module + "/a": {Imports: []string{module + "/b", "c"}},
		module + "/b": {Imports: []string{"x", "c"}},
		"c":           {Imports: []string{"d"}},
		"d":           {Imports: []string{"x"}},
	}
	got := []string{
		chain(packages, []string{module + "/a"}, "x"),
		chain(packages, []string{module + "/a", "d"}, "x"),
	}
	if diff := cmp.Diff([]string{"a → b → x", "d → x"}, got); diff != "" {
		t.Error(diff)
	}
}
