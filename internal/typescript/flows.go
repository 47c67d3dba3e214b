package typescript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// Flows returns a TypeScript module with the interface Flows. The interface contains the input and
// result types of the workflows of packages, and the types of their topics, asks, values and
// streams. The module also contains all types to which these types refer. If several packages
// declare the same name with different types, its type is their union.
func Flows(packages []*manifest.Manifest) ([]byte, error) {
	f := &flows{types: map[string]*structure{}, groups: map[string]map[string][]string{}, declared: map[string]string{}}
	packages = slices.SortedFunc(slices.Values(packages), func(a, b *manifest.Manifest) int { return strings.Compare(a.Package, b.Package) })
	for _, m := range packages {
		if err := f.collect(m); err != nil {
			return nil, err
		}
	}
	f.nameAll()
	for _, m := range packages {
		if err := f.add(m); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	b.WriteString("// Made by flowgen types. Do not edit.\n\n/** What the workflows take and return, and what is sent to them and published by them, by the names that are stored. */\nexport interface Flows {\n")
	for _, group := range []string{"workflows", "topics", "asks", "values", "streams"} {
		f.write(&b, group)
	}
	b.WriteString("}\n")
	for _, name := range slices.Sorted(maps.Keys(f.declared)) {
		b.WriteString("\n" + f.declared[name])
	}
	return []byte(b.String()), nil
}

// structure is a named type of a manifest.
type structure struct {
	pkg    *manifest.Manifest // manifest in which references of the schema are resolved
	schema *schema
	name   string // name of the type in TypeScript
}

// flows collects the types and members of the generated module.
type flows struct {
	types    map[string]*structure          // types by Go name with package path
	groups   map[string]map[string][]string // types by name, for each group
	declared map[string]string              // declarations of the used types by name
}

// fullName returns the name of a type including its package path, and the package path. The type
// occurs in the manifest of package of.
func fullName(of, name string) (full, pkg string) {
	base, _, _ := strings.Cut(name, "[") // The type arguments are not part of the package path.
	if dot := strings.LastIndexByte(base, '.'); dot >= 0 {
		return name, base[:dot]
	}
	return of + "." + name, of
}

// collect adds the types of a manifest to f.types.
func (f *flows) collect(m *manifest.Manifest) error {
	for name, raw := range m.Types {
		s, err := read(raw)
		if err != nil {
			return fmt.Errorf("type %s of package %s: %w", name, m.Package, err)
		}
		if full, _ := fullName(m.Package, name); f.types[full] == nil {
			f.types[full] = &structure{pkg: m, schema: s}
		}
	}
	return nil
}

func read(raw json.RawMessage) (*schema, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil //nolint:nilnil // there is none
	}
	s := &schema{}
	return s, json.Unmarshal(raw, s)
}

// taken contains names that no type may have, because TypeScript or the generated module uses them.
var taken = map[string]bool{"Flows": true, "Record": true}

func init() {
	for name := range strings.FieldsSeq(`any bigint boolean never null number object string symbol undefined unknown void
		break case catch class const continue debugger default delete do else enum export extends false finally for function if import in instanceof new
		return super switch this throw true try typeof var while with`) {
		taken[name] = true
	}
}

var (
	paths = regexp.MustCompile(`[\w.~-]+/`)
	odd   = regexp.MustCompile(`[^A-Za-z0-9_$]+`)
)

// nameAll assigns a TypeScript name to each type. It is the Go name, with the package name as
// prefix if several packages have a type of this name.
func (f *flows) nameAll() {
	short := func(full string) string {
		_, pkg := fullName("", full)
		return strings.Trim(odd.ReplaceAllString(paths.ReplaceAllString(full[len(pkg)+1:], ""), "_"), "_")
	}
	count := map[string]int{}
	for full := range f.types {
		count[short(full)]++
	}
	used := map[string]bool{}
	for _, full := range slices.Sorted(maps.Keys(f.types)) {
		name := short(full)
		if count[name] > 1 {
			_, pkg := fullName("", full)
			base := odd.ReplaceAllString(path.Base(pkg), "_")
			name = strings.ToUpper(base[:1]) + base[1:] + "_" + name
		}
		for n, first := 2, name; used[name] || taken[name]; n++ {
			name = first + "_" + strconv.Itoa(n)
		}
		used[name] = true
		f.types[full].name = name
	}
}

// typeOf returns the TypeScript type of a schema of a manifest. It also declares all types to which
// the schema refers.
func (f *flows) typeOf(m *manifest.Manifest, raw json.RawMessage, indent string) (string, error) {
	s, err := read(raw)
	if err != nil {
		return "", fmt.Errorf("package %s: %w", m.Package, err)
	}
	return f.writer(m).typeOf(s, indent), nil
}

// writer returns a writer that resolves references in manifest m.
func (f *flows) writer(m *manifest.Manifest) *writer {
	return &writer{integer: "number", named: func(ref string) string {
		name, _ := manifest.Named(ref)
		full, _ := fullName(m.Package, name)
		t := f.types[full]
		if t == nil {
			return "unknown"
		}
		if _, known := f.declared[t.name]; !known {
			f.declared[t.name] = "" // The empty entry ends the recursion.
			f.declared[t.name] = f.writer(t.pkg).declare(t.name, t.schema)
		}
		return t.name
	}}
}

// add adds the workflows, topics, asks, values and streams of a manifest to f.groups.
func (f *flows) add(m *manifest.Manifest) error {
	for name, w := range m.Workflows {
		input := &schema{Type: kinds{"object"}, Properties: map[string]*schema{}}
		for _, p := range w.Params {
			s, err := read(p.Schema)
			if err != nil {
				return fmt.Errorf("parameter %s of workflow %s: %w", p.Name, name, err)
			}
			input.Properties[p.Name] = s
			input.Required = append(input.Required, p.Name)
		}
		takes := "undefined" // A workflow without parameters is started without input.
		if len(w.Params) > 0 {
			takes = f.writer(m).typeOf(input, "      ")
		}
		result, err := f.typeOf(m, w.Result, "      ")
		if err != nil {
			return err
		}
		f.put("workflows", name, pair("input", takes, "result", result))
	}
	groups := map[string]string{"topic": "topics", "ask": "asks", "value": "values", "stream": "streams"}
	for key, d := range m.Declared {
		kind, name, _ := strings.Cut(key, " ")
		group := groups[kind]
		if group == "" {
			continue // A hook is addressed by its token, not by its name.
		}
		indent := "    "
		if kind == "ask" {
			indent += "  "
		}
		carries, err := f.typeOf(m, d.Schema, indent)
		if err != nil {
			return err
		}
		if kind == "ask" {
			answer, err := f.typeOf(m, d.Answer, indent)
			if err != nil {
				return err
			}
			carries = pair("question", carries, "answer", answer)
		}
		f.put(group, name, carries)
	}
	return nil
}

// pair returns a TypeScript object type with two fields.
func pair(one, is, other, isToo string) string {
	return "{\n      " + one + ": " + is + ";\n      " + other + ": " + isToo + ";\n    }"
}

func (f *flows) put(group, name, is string) {
	if f.groups[group] == nil {
		f.groups[group] = map[string][]string{}
	}
	if all := f.groups[group][name]; !slices.Contains(all, is) {
		f.groups[group][name] = append(all, is)
	}
}

// write writes the members of a group.
func (f *flows) write(b *strings.Builder, group string) {
	if len(f.groups[group]) == 0 {
		fmt.Fprintf(b, "  %s: {};\n", group)
		return
	}
	fmt.Fprintf(b, "  %s: {\n", group)
	for _, name := range slices.Sorted(maps.Keys(f.groups[group])) {
		all := f.groups[group][name]
		slices.Sort(all)
		fmt.Fprintf(b, "    %s: %s;\n", property(name), alternatives(all))
	}
	b.WriteString("  };\n")
}
