package layers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// goPackage contains the fields of the output of go list that the tests use.
type goPackage struct {
	ImportPath string
	Imports    []string
	Standard   bool
	DepOnly    bool
	CgoFiles   []string
	Module     *struct{ Path string }
}

// run executes a go command in the root of the module and returns the output.
func run(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// list returns the packages that match the patterns, and all packages that they import, by import
// path. DepOnly is set for packages that match no pattern.
func list(t *testing.T, patterns ...string) map[string]*goPackage {
	t.Helper()
	args := append([]string{"list", "-deps", "-json=ImportPath,Imports,Standard,DepOnly,CgoFiles,Module"}, patterns...)
	dec := json.NewDecoder(bytes.NewReader(run(t, []string{"CGO_ENABLED=1"}, args...)))
	packages := map[string]*goPackage{}
	for {
		p := &goPackage{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		packages[p.ImportPath] = p
	}
}

// chain returns the shortest import chain, such as "a → b → c", from one of the roots to a package.
func chain(packages map[string]*goPackage, roots []string, to string) string {
	from := map[string]string{}
	queue := slices.Clone(roots)
	for _, root := range roots {
		from[root] = ""
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at == to {
			break
		}
		if packages[at] == nil {
			continue
		}
		for _, next := range packages[at].Imports {
			if _, seen := from[next]; !seen {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	var way []string
	for at := to; at != ""; at = from[at] {
		way = append(way, strings.TrimPrefix(at, module+"/"))
	}
	slices.Reverse(way)
	return strings.Join(way, " → ")
}
