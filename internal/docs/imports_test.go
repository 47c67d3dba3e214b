package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/flowgen/flowgen"

// foreign matches a qualified identifier such as worker.Config.
var foreign = regexp.MustCompile("(?:^|[^\\w.\"/])([a-z]+)\\.[A-Z]\\w*")

// codeOf returns the code on a page, which consists of the Go blocks and the code spans.
func codeOf(page string) string {
	var b strings.Builder
	for _, block := range blocks(page) {
		if block.info == "go" || strings.HasPrefix(block.info, "go ") {
			b.WriteString(block.text)
		}
	}
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(page, -1) {
		b.WriteString(span + "\n")
	}
	return b.String()
}

// unnamed returns the import paths of packages that a page uses without naming the path. packages
// maps package names to import paths.
func unnamed(page string, packages map[string]string) []string {
	var missing []string
	seen := make(map[string]bool)
	for _, m := range foreign.FindAllStringSubmatch(codeOf(page), -1) {
		at := packages[m[1]]
		if at == "" || seen[at] || strings.Contains(page, "\""+at+"\"") {
			continue
		}
		seen[at] = true
		missing = append(missing, at)
	}
	return missing
}

func TestPages_NameTheImportPathsOfWhatTheyUse(t *testing.T) {
	byName := map[string]string{"redisstore": module + "/redisstore"}
	for _, at := range packages {
		byName[path.Base(at)] = module + "/" + at
	}
	all := pages(t)
	for name, page := range all {
		if name == "CONTRIBUTING.md" { // contributors have the source tree
			continue
		}
		if strings.HasPrefix(name, "docs/") || strings.HasPrefix(name, "flowcheck/pages/") {
			page += all["docs/README.md"] // this page lists the packages for all pages
		}
		for _, at := range unnamed(page, byName) {
			t.Errorf("%s does not say that it means %q", name, at)
		}
	}
}

func TestUnnamed_LooksAtBlocksAndSpans(t *testing.T) {
	packages := map[string]string{"worker": "example.com/runtime/worker"}
	for page, want := range map[string]int{
		"a `worker.Config`":                      1,
		"```go x.go\n\tw := worker.New()\n```\n": 1,
		"```go\nimport \"example.com/runtime/worker\"\n```\n`worker.Config`, `worker.New`": 0,
		"prose about worker.Config":       0,
		"`w.worker.Config`":               0,
		"`fsck.Repair`":                   0,
		"```sh\nworker.New\n```\n":        0,
		"`*worker.Config` `worker.Grace`": 1,
	} {
		if got := unnamed(page, packages); len(got) != want {
			t.Errorf("%q lacks %v, want %d", page, got, want)
		}
	}
}
