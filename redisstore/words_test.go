package redisstore

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestScripts_CompareArgumentsWithWordsThatGoSends proves that each word with which a script
// compares an argument is a literal of the package outside a comparison. Numbers are ignored.
func TestScripts_CompareArgumentsWithWordsThatGoSends(t *testing.T) {
	sent, compared := sentWords(t), 0
	bound := regexp.MustCompile(`(?m)^ *local ([\w, ]+) = (.+)$`)
	comparison := regexp.MustCompile(`(\w+|ARGV\[[^]]*\]) [=~]= '([^'\d]+)'`)
	err := fs.WalkDir(sources, "lua", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		code, arguments := bare(source(strings.TrimSuffix(strings.TrimPrefix(file, "lua/"), ".lua"))), map[string]bool{}
		for _, m := range bound.FindAllStringSubmatch(code, -1) {
			names, values := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
			for i := range min(len(names), len(values)) {
				arguments[names[i]] = strings.HasPrefix(values[i], "ARGV[")
			}
		}
		for _, m := range comparison.FindAllStringSubmatch(code, -1) {
			if !arguments[m[1]] && !strings.HasPrefix(m[1], "ARGV[") {
				continue
			}
			if compared++; !sent[m[2]] {
				t.Errorf("%s compares %s with %q, which Go does not send", file, m[1], m[2])
			}
		}
		return nil
	})
	if err != nil || compared < 25 {
		t.Errorf("found %d comparisons with words, %v, want at least 25", compared, err)
	}
}

// sentWords returns the string literals of the package that are outside comparisons.
func sentWords(t *testing.T) map[string]bool {
	names, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	words, compared := map[string]bool{}, map[ast.Node]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CaseClause:
				for _, e := range n.List {
					compared[e] = true
				}
			case *ast.BinaryExpr:
				compared[n.X], compared[n.Y] = n.Op != token.ADD, n.Op != token.ADD
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && !compared[n] {
					words[text] = true
				}
			}
			return true
		})
	}
	return words
}
