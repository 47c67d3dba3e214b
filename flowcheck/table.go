package flowcheck

import (
	"fmt"
	"go/types"
	"strings"
	"sync"
)

// A table maps functions, methods and variables of packages to the rules that they violate. A key
// has the form "path.F", "path.(T).M", "path.(T).*" or "path.*".
type table struct {
	rows     map[string]Rule
	packages map[string]bool
}

// pure is the entry of a function without effects.
const pure Rule = "pure"

var (
	standard = sync.OnceValue(func() *table { return mustParseTable(standardRows) })
	others   = sync.OnceValue(func() *table { return mustParseTable(otherRows) })
)

func mustParseTable(rows string) *table {
	t, err := parseTable(rows)
	if err != nil {
		panic("flowcheck: " + err.Error())
	}
	return t
}

func parseTable(rows string) (*table, error) {
	t := &table{rows: make(map[string]Rule), packages: make(map[string]bool)}
	for line := range strings.Lines(rows) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) == 1 {
			return nil, fmt.Errorf("row %q has no rule", words[0])
		}
		path, rule, names := words[0], Rule(words[1]), words[2:]
		if rule != pure && !known(rule) {
			return nil, fmt.Errorf("row of %s: there is no rule %s", path, rule)
		}
		t.packages[path] = true
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, name := range names {
			key := path + "." + name
			if _, twice := t.rows[key]; twice {
				return nil, fmt.Errorf("%s has two rows", key)
			}
			t.rows[key] = rule
		}
	}
	return t, nil
}

// has reports whether the table contains an entry for the package at path.
func (t *table) has(path string) bool { return t.packages[path] }

// rule returns the entry for a function, a method or a package variable, or "" if there is none.
func (t *table) rule(obj types.Object) Rule {
	if obj.Pkg() == nil || !t.has(obj.Pkg().Path()) {
		return ""
	}
	path := obj.Pkg().Path()
	keys := []string{path + "." + obj.Name(), path + ".*"}
	if fn, isFunc := obj.(*types.Func); isFunc {
		if recv := fn.Signature().Recv(); recv != nil {
			of := path + ".(" + typeName(recv.Type()) + ")."
			keys = []string{of + fn.Name(), of + "*", path + ".*"}
		}
	} else {
		keys = keys[:1] // The key "path.*" applies only to functions and methods.
	}
	for _, key := range keys {
		if rule, ok := t.rows[key]; ok {
			return rule
		}
	}
	return ""
}

// typeName returns the name of t, or of its element type if t is a pointer.
func typeName(t types.Type) string {
	if p, isPointer := types.Unalias(t).(*types.Pointer); isPointer {
		t = p.Elem()
	}
	if named, ok := types.Unalias(t).(*types.Named); ok {
		return named.Obj().Name()
	}
	return ""
}
