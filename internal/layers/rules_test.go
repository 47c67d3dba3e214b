package layers_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const module = "github.com/flowgen/flowgen"

// A rule defines the imports that are allowed for the packages that match it. Patterns are paths in
// the module; "x/..." matches x and everything below x. The first rule that matches a package
// applies.
type rule struct {
	packages string
	module   []string // allowed packages of this module
	external []string // allowed other modules; nil means all
	required bool     // whether the package must exist
	helper   bool     // for tests only: the package may import test packages, and no shipped package may import it
}

// none forbids all other modules.
var none = []string{}

// anyPackage allows all packages of this module except test helpers.
var anyPackage = []string{"runtime/...", "memstore/...", "sqlitestore/...", "redisstore/...", "generated/...", "examples/..."}

// rules defines the layers of the tree, from the lowest to the highest.
var rules = []rule{
	{packages: "runtime/internal/refs", external: none},
	{packages: "runtime/event", module: []string{"runtime/internal/refs"}, external: []string{"github.com/oklog/ulid/v2"}, required: true},
	{packages: "runtime/store", module: []string{"runtime/event", "internal/environ"}, external: none, required: true},
	// Package codec compresses payloads with zstd.
	{packages: "runtime/codec", module: []string{"runtime/event", "runtime/store", "internal/environ"}, external: []string{"github.com/klauspost/compress"}, required: true},
	{packages: "runtime/codec/codectest", module: []string{"runtime/codec"}, external: none, required: true, helper: true},
	{packages: "runtime/observe", module: []string{"runtime/event", "runtime/store"}, external: none, required: true},
	{packages: "runtime/store/protocol", module: []string{"runtime/event", "runtime/store"}, external: none, required: true},
	{packages: "runtime/store/notify", module: []string{"runtime/event", "runtime/store", "runtime/store/protocol"}, external: none, required: true},
	{packages: "runtime/store/paging", module: []string{"runtime/event", "runtime/store"}, external: none, required: true},
	{packages: "runtime/store/archive", module: []string{"runtime/event", "runtime/store", "runtime/store/paging"}, external: none, required: true},
	{packages: "runtime/store/protocol/check", module: []string{"runtime/event", "runtime/store", "runtime/store/protocol"}, external: none, required: true, helper: true},
	{packages: "runtime/store/fsck", module: []string{"runtime/event", "runtime/store", "runtime/internal/effects"}, external: none},
	{packages: "runtime/store/storetest/...", module: []string{"runtime/event", "runtime/store/...", "internal/testutil"}, required: true, helper: true},

	{packages: "memstore/...", module: []string{"runtime/event", "runtime/store", "runtime/store/notify", "runtime/store/paging", "runtime/store/protocol", "memstore/..."}, external: none, required: true},
	{packages: "sqlitestore/internal/db", module: []string{"runtime/event"}, external: []string{
		"github.com/gofrs/flock", "github.com/oklog/ulid/v2", "golang.org/x/sys", "zombiezen.com/go/sqlite",
	}, required: true},
	{packages: "sqlitestore/...", module: []string{"runtime/event", "runtime/store", "runtime/store/notify", "runtime/store/paging", "runtime/store/protocol", "sqlitestore/..."}, external: []string{
		"zombiezen.com/go/sqlite", "modernc.org/sqlite", "github.com/gofrs/flock", "golang.org/x/sys", "github.com/oklog/ulid/v2",
	}, required: true},
	{packages: "redisstore/doctor", module: []string{"runtime/store"}, external: []string{"github.com/redis/go-redis/v9"}, required: true},
	{packages: "redisstore/...", module: []string{"runtime/event", "runtime/store", "runtime/store/notify", "runtime/store/paging", "redisstore/..."}, external: []string{"github.com/redis/go-redis/v9"}, required: true},

	// Package replay uses go-cmp to describe the difference if a run does not match its code.
	{packages: "runtime/internal/replay", module: []string{"runtime/event", "runtime/internal/..."}, external: []string{"github.com/google/go-cmp"}, required: true},
	{packages: "runtime/internal/permits", module: []string{"runtime/event", "runtime/store"}, external: none},
	{packages: "runtime/internal/deploy", module: []string{"runtime/event", "runtime/store"}, external: none},
	// The store that seals user data is between the store of the user and all packages that use it.
	{packages: "runtime/internal/sealed", module: []string{"runtime/event", "runtime/store", "runtime/internal/effects", "runtime/internal/flow"}, external: none},
	{packages: "runtime/internal/pins", module: []string{"runtime/event", "runtime/store", "runtime/internal/deploy"}, external: none},
	{packages: "runtime/limit", module: []string{"runtime/event", "runtime/store", "runtime/internal/permits"}, external: none, required: true},
	{packages: "runtime/schedule", module: []string{"runtime/event", "internal/cron"}, external: none, required: true},
	{packages: "runtime/internal/effects", module: []string{"runtime/event", "runtime/store", "runtime/internal/permits"}, external: none},
	{packages: "runtime/internal/flow", module: []string{"internal/jsonschema", "runtime/event", "runtime/store", "runtime/internal/..."}, external: none},
	{packages: "runtime/internal/runloop", module: []string{"runtime/event", "runtime/store", "runtime/observe", "runtime/internal/..."}, external: none, required: true},
	{packages: "runtime/internal/localstart", module: []string{"runtime/event", "runtime/store"}, external: none},
	{packages: "runtime/internal/failuregroup", module: []string{"runtime/event", "runtime/store", "runtime/internal/..."}, external: none},
	{packages: "runtime/internal/outage", module: []string{"runtime/event", "runtime/store"}, external: none},
	{packages: "runtime/internal/flowtest", module: append(slices.Clone(anyPackage), "internal/testutil/..."), helper: true},
	{packages: "runtime/internal/...", module: []string{"runtime/event", "runtime/internal/..."}, external: none},
	{packages: "runtime/workflow", module: below("workflow"), external: none, required: true},
	{packages: "runtime/workflow/graph", module: append(below("workflow"), "runtime/workflow"), external: none, required: true},
	{packages: "runtime/ops", module: append(below("workflow"), "runtime/workflow"), external: none, required: true},
	{packages: "runtime/step/...", module: below("step"), external: none, required: true},
	{packages: "runtime/shim", module: below("shim"), external: none, required: true},
	{packages: "runtime/alert", module: []string{"runtime/event", "runtime/store"}, external: none, required: true},
	{packages: "runtime/alert/webhook", module: []string{"runtime/alert"}, external: none, required: true},
	{packages: "runtime/worker/internal/alerting", module: append(below("worker"), "runtime/ops", "runtime/worker/internal/wait"), external: none, required: true},
	{packages: "runtime/worker", module: append(below("worker"), "runtime/worker/internal/..."), external: none, required: true},
	{packages: "runtime/worker/internal/...", module: append(below("worker"), "runtime/worker/internal/..."), external: none},
	{packages: "runtime/health", module: []string{"runtime/event", "runtime/store", "runtime/worker"}, external: none, required: true},
	{packages: "runtime/health/systemd", module: []string{"runtime/worker"}, external: none, required: true},
	{packages: "runtime/invoke", module: append(below("worker"), "runtime/worker"), external: none, required: true},
	{packages: "runtime/workflowtest", module: append(below("workflowtest"), "memstore", "internal/testutil"), helper: true},

	{packages: "runtime/promises/...", helper: true},

	{packages: "otelflow", module: []string{"runtime/event", "runtime/observe", "runtime/ops", "runtime/step", "runtime/store", "runtime/workflow"}, external: []string{
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/sdk",
		"go.opentelemetry.io/otel/sdk/metric",
	}, required: true},

	{packages: "lambdaflow", module: none, external: []string{"github.com/aws/aws-lambda-go"}, required: true},

	{packages: "cloudblobs", module: []string{"runtime/codec"}, external: []string{
		"github.com/aws/aws-sdk-go-v2/service/s3", "gocloud.dev", "golang.org/x/sync",
	}, required: true},
	{packages: "cloudblobs/servers", helper: true, required: true},

	{packages: "flowcheck/...", module: []string{"flowcheck/...", "internal/..."}},
	// The generator and the runtime compute the ticks of schedules with package cron.
	{packages: "internal/cron", external: none, required: true},
	// The runtime creates schemas with package jsonschema, and the admin service validates inputs
	// with them.
	{packages: "internal/jsonschema", external: none, required: true},
	{packages: "internal/recent", external: none, required: true},
	{packages: "internal/spelling", external: none, required: true},
	// The runtime and the command read their configuration from the environment with package environ.
	{packages: "internal/environ", module: []string{"internal/spelling"}, external: []string{"github.com/caarlos0/env/v11"}, required: true},
	{packages: "internal/layers", module: []string{"internal/environ"}, helper: true},
	{packages: "internal/testutil/...", module: append(slices.Clone(anyPackage), "internal/testutil/install"), helper: true},
	{packages: "internal/...", module: []string{"internal/...", "flowcheck/..."}},
	// Functions for operators use only the client. The command may import their declarations and
	// the stores. The API and its client share the table of routes. Both may import the
	// declarations of admin, but neither may import the other.
	{packages: "admin/admintest", module: append(below("workflowtest"), "runtime/ops", "runtime/workflow/graph", "admin"), external: []string{"github.com/google/go-cmp"}, required: true, helper: true},
	{packages: "admin/httpauth", module: []string{"admin"}, external: none, required: true},
	{packages: "admin/jwtauth", module: []string{"admin"}, external: []string{"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4"}, required: true},
	{packages: "admin/jwtauth/recipe", module: []string{"admin", "admin/api", "admin/console", "admin/httpauth", "admin/jwtauth", "memstore", "runtime/workflow"}, external: []string{"github.com/go-jose/go-jose/v4"}, required: true},
	{packages: "admin/hooks", module: []string{"admin", "admin/internal/body", "admin/internal/rate", "runtime/workflow"}, external: none, required: true},
	{packages: "admin/api", module: []string{"admin", "admin/httpauth", "admin/internal/body", "admin/internal/loopback", "admin/internal/rate", "admin/internal/route", "runtime/workflow"}, external: none, required: true},
	{packages: "admin/console", module: []string{"admin", "admin/httpauth", "admin/internal/body", "admin/internal/loopback", "admin/internal/rate", "internal/recent", "runtime/event", "runtime/ops", "runtime/store", "runtime/workflow"}, external: none, required: true},
	{packages: "admin/remote", module: []string{"admin", "admin/internal/loopback", "admin/internal/route"}, external: none, required: true},
	{packages: "admin/internal/body", module: []string{"admin"}, external: none, required: true},
	{packages: "admin/internal/rate", module: none, external: none, required: true},
	{packages: "admin/internal/loopback", module: none, external: none, required: true},
	{packages: "admin/internal/route", module: []string{"admin"}, external: none, required: true},
	{packages: "admin", module: append(below("worker"), "runtime/ops", "runtime/store/archive"), external: none, required: true},
	{packages: "cmd/flowctl/cli/internal/quiet", module: none, required: true},
	{packages: "cmd/flowctl/cli", module: []string{"cmd/flowctl/cli/internal/quiet", "internal/environ", "admin", "admin/api", "admin/console", "admin/hooks", "admin/httpauth", "admin/jwtauth", "admin/remote", "otelflow", "runtime/codec", "runtime/event", "runtime/health", "runtime/ops", "runtime/store", "runtime/store/archive", "runtime/store/fsck", "runtime/worker", "runtime/workflow"}, required: true},
	{packages: "cmd/flowctl/conform", helper: true},
	{packages: "cmd/flowctl/uitest/...", module: append(below("workflowtest"), "admin", "admin/console", "cmd/flowctl/uitest", "sqlitestore"), helper: true},
	{packages: "cmd/flowctl", module: []string{"cmd/flowctl/cli", "sqlitestore", "redisstore"}, required: true},
	{packages: "cmd/flowgen", module: []string{"internal/...", "flowcheck/..."}, required: true},
	{packages: "generated/...", module: anyPackage},
	{packages: "examples/recipes/...", module: append(slices.Clone(anyPackage), "admin", "admin/console", "admin/hooks")},
	{packages: "examples/...", module: anyPackage},
	{packages: "clients/ts/e2e/clients", module: anyPackage},
	{packages: "clients/ts/e2e", module: append(slices.Clone(anyPackage), "admin", "admin/api", "clients/ts/e2e/clients"), helper: true},
	{packages: "lab/mutants", external: none},
	{packages: "lab/...", module: append(slices.Clone(anyPackage), "lab/...", "admin", "otelflow")},
}

// below returns the packages that package runtime/name may import, which are all packages of lower
// layers.
func below(name string) []string {
	order := []string{"workflow", "step", "shim", "worker", "workflowtest"}
	under := []string{"runtime/event", "runtime/store", "runtime/observe", "runtime/store/fsck", "runtime/internal/...", "runtime/limit", "runtime/schedule", "internal/cron", "internal/environ", "internal/jsonschema", "internal/recent"}
	if name == "worker" || name == "workflowtest" {
		under = append(under, "runtime/alert")
	}
	for _, lower := range order[:slices.Index(order, name)] {
		under = append(under, "runtime/"+lower)
	}
	if name == "step" {
		under = append(under, "runtime/step") // for the packages below runtime/step
	}
	return under
}

// testOnly contains packages that no shipped package may import, in addition to the helpers in
// rules.
var testOnly = []string{
	"testing/...", "net/http/httptest", "go.uber.org/goleak/...",
	"pgregory.net/rapid/...", "github.com/stretchr/testify/...",
}

func matches(pattern, p string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == dir || strings.HasPrefix(p, dir+"/")
	}
	return p == pattern
}

func matchesAny(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, p) })
}

// local returns the path of a package in the module. It returns false for a package of another
// module.
func local(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func ruleOf(p string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.packages, p) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// violations returns a line for each import that is forbidden.
func violations(packages map[string]*goPackage) []string {
	var found []string
	for _, pkg := range packages {
		p, ok := local(pkg.ImportPath)
		if !ok {
			continue
		}
		r, ok := ruleOf(p)
		if !ok {
			found = append(found, fmt.Sprintf("%s has no place in the layers: give it a row in internal/layers/rules_test.go", p))
			continue
		}
		for _, imported := range pkg.Imports {
			if why := r.forbids(p, imported, packages[imported]); why != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p, imported, why))
			}
		}
	}
	slices.Sort(found)
	return found
}

// forbids returns why rule r forbids package p to import another package, or "" if the import is
// allowed. details is nil if the imported package was not listed.
func (r rule) forbids(p, imported string, details *goPackage) string {
	if to, ok := local(imported); ok {
		if target, ok := ruleOf(to); ok && target.helper && !r.helper {
			return "it is for tests, " + p + " is shipped"
		}
		if !matchesAny(r.module, to) {
			return fmt.Sprintf("it is not below; %s may import %s of this module", path.Base(p), orNothing(r.module))
		}
		return ""
	}
	if !r.helper && matchesAny(testOnly, imported) {
		return "it is for tests, " + p + " is shipped"
	}
	if details == nil || details.Standard || r.external == nil {
		return ""
	}
	if details.Module == nil || !slices.Contains(r.external, details.Module.Path) {
		return fmt.Sprintf("it is not the standard library; %s may import %s of others", path.Base(p), orNothing(r.external))
	}
	return ""
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}
