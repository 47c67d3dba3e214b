package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutantEnv is the environment variable that selects a mutant in a bundle. Compiling a package with
// its tests takes ten times as long as most tests. Therefore all mutants of a package's tests share
// one program. For each function that a mutant changes, the program contains the original and the
// mutated function. The original function calls the mutated one if the variable names the mutant.
const mutantEnv = "FLOWTEST_MUTANT"

// bundle is a test program that contains many mutants.
type bundle struct {
	program string
	holds   map[string]bool // whether the program contains a mutant, by ID
}

// bundleOf returns the program for the mutants of a package's tests. The program omits mutants that
// change code outside of functions, and mutants with which it does not build. These mutants are
// compiled separately.
func (c *campaign) bundleOf(ctx context.Context, pkg string) (*bundle, error) {
	if b := c.bundles[pkg]; b != nil {
		return b, nil
	}
	b := &bundle{holds: map[string]bool{}}
	if c.bundles == nil {
		c.bundles = map[string]*bundle{}
	}
	c.bundles[pkg] = b
	files := map[string][]*Mutant{}
	for i := range c.mutants {
		if m := &c.mutants[i]; m.Package == pkg && strings.HasSuffix(m.File, ".go") {
			files[m.File] = append(files[m.File], m)
		}
	}
	replace, ids := map[string]string{}, map[string]bool{}
	for _, file := range sortedKeys(files) {
		text, name, held, err := bundled(c.root, file, files[file])
		if err != nil {
			return nil, err
		}
		if len(held) == 0 {
			continue
		}
		replace[file] = text
		replace[filepath.ToSlash(filepath.Join(filepath.Dir(file), "mutant_now.go"))] =
			"package " + name + "\n\nimport \"os\"\n\nvar mutantNow = os.Getenv(\"" + mutantEnv + "\")\n"
		for _, id := range held {
			ids[id] = true
		}
	}
	if len(replace) == 0 {
		return b, nil
	}
	program, err := c.build(ctx, pkg, replace)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		fmt.Fprintf(c.notes, "the mutants of ./%s are compiled one by one: %v\n", pkg, err)
	default:
		b.program, b.holds = program, ids
	}
	return b, nil
}

// bundled returns the source of a file with mutants in it, its package name, and the IDs of the
// included mutants. It omits mutants that do not match the source.
func bundled(root, file string, mutants []*Mutant) (text, pkg string, held []string, err error) {
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return "", "", nil, fmt.Errorf("bundle mutants: %w", err)
	}
	source := string(b)
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil, fmt.Errorf("bundle mutants: %w", err)
	}
	type insert struct {
		at   int
		text string
	}
	var inserts []insert
	var copies strings.Builder
	for _, m := range mutants {
		at, err := m.place(source)
		if err != nil {
			continue
		}
		f := enclosing(parsed, at, at+len(m.Old))
		if f == nil {
			continue
		}
		name := fmt.Sprintf("%sMutant%d", f.Name.Name, len(held))
		from, rest := offset(f.Name.Pos()), offset(f.Name.End())
		copies.WriteString("\n" + source[offset(f.Pos()):from] + name + source[rest:at] + m.New + source[at+len(m.Old):offset(f.End())] + "\n")
		inserts = append(inserts, insert{offset(f.Body.Lbrace) + 1, fmt.Sprintf("\n\tif mutantNow == %q {\n\t\t%s\n\t}\n", m.ID, call(f, name))})
		held = append(held, m.ID)
	}
	slices.SortStableFunc(inserts, func(a, b insert) int { return cmp.Compare(b.at, a.at) })
	for _, i := range inserts {
		source = source[:i.at] + i.text + source[i.at:]
	}
	return source + copies.String(), parsed.Name.Name, held, nil
}

// offset returns the byte offset of a position in a file that was parsed without other files.
func offset(p token.Pos) int { return int(p) - 1 }

// enclosing returns the function whose body contains the text from offset from to offset to. It
// returns nil if there is none, or if a parameter of the function has no name.
func enclosing(file *ast.File, from, to int) *ast.FuncDecl {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || from < offset(f.Body.Lbrace) || to > offset(f.Body.Rbrace)+1 {
			continue
		}
		fields := f.Type.Params.List
		if f.Recv != nil {
			fields = append(slices.Clone(f.Recv.List), fields...)
		}
		for _, field := range fields {
			unnamed := func(n *ast.Ident) bool { return n.Name == "_" }
			if len(field.Names) == 0 || slices.ContainsFunc(field.Names, unnamed) {
				return nil
			}
		}
		return f
	}
	return nil
}

// call returns the source of a call of the function name with the parameters of f.
func call(f *ast.FuncDecl, name string) string {
	var args []string
	for _, field := range f.Type.Params.List {
		for _, n := range field.Names {
			arg := n.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	text := name + "(" + strings.Join(args, ", ") + ")"
	if f.Recv != nil {
		text = f.Recv.List[0].Names[0].Name + "." + text
	}
	if f.Type.Results == nil {
		return text + "\n\t\treturn"
	}
	return "return " + text
}
