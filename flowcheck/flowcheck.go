package flowcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// solver applies all rules to a package, based on the effects of functions. The analyzer of a rule
// only selects its own reports from the result.
var solver = &analysis.Analyzer{
	Name:       "floweffects",
	Doc:        "find what functions do that workflow code must not",
	Run:        func(pass *analysis.Pass) (any, error) { return judge(pass), nil },
	ResultType: reflect.TypeFor[reports](),
	FactTypes:  []analysis.Fact{(*Effects)(nil), (*Mutated)(nil), (*Annotated)(nil), (*Unsorted)(nil), (*Counterpart)(nil)},
}

// reports contains the reports about a package by rule, in source order.
type reports map[Rule][]analysis.Diagnostic

// packagePass contains the state of the analysis of one package.
type packagePass struct {
	pass   *analysis.Pass
	module string
	root   inspector.Cursor
	files  []*ast.File // the files of the package without test files

	ignores   *ignores
	units     []*unit
	own       map[ast.Node]bool    // function literals that are separate units
	keyPos    map[string]token.Pos // position of the key= option by the name of the counterpart
	recorded  map[ast.Node]bool    // functions passed to workflow.Record
	once      map[ast.Node]bool    // functions passed to a sync.Once
	written   map[token.Pos]bool
	reads     []read
	mutated   map[*types.Var]*Mutated
	annotated map[*types.Func]*Annotated
	effects   map[*types.Func][]Effect
	unsorted  map[*types.Func]*Unsorted
	sentinels map[*types.Var]bool // variables with //flow:error

	found reports
}

// judge analyzes a package. It records operations, solves the call graph and reports violations.
func judge(pass *analysis.Pass) reports {
	if isStandard(pass) || isEngine(pass.Pkg.Path()) {
		return nil
	}
	p := &packagePass{
		pass: pass, module: moduleOf(pass), ignores: &ignores{fset: pass.Fset},
		written: make(map[token.Pos]bool), mutated: make(map[*types.Var]*Mutated),
		annotated: make(map[*types.Func]*Annotated), sentinels: make(map[*types.Var]bool), keyPos: make(map[string]token.Pos), found: make(reports),
	}
	for _, f := range pass.Files {
		if !isTestFile(pass.Fset, f) {
			p.files = append(p.files, f)
			if !ast.IsGenerated(f) {
				p.ignores.read(f)
			}
		}
	}
	p.root = inspector.New(p.files).Root()
	p.annotate()
	p.collect()
	p.judgeReads()
	p.solve()
	p.export()
	p.findUnsorted()
	p.exportCounterparts()
	for _, u := range p.units {
		p.judgeUnit(u)
	}
	p.ignores.judge(func(pos, end token.Pos, text string) {
		p.found["ignore"] = append(p.found["ignore"], analysis.Diagnostic{Pos: pos, End: end, Message: text + " [ignore]"})
	})
	for _, list := range p.found {
		slices.SortStableFunc(list, func(a, b analysis.Diagnostic) int { return int(a.Pos - b.Pos) })
	}
	return p.found
}

// isStandard reports whether the package belongs to the standard library. Such packages are not
// analyzed, because standardRows classifies them.
func isStandard(pass *analysis.Pass) bool {
	if moduleOf(pass) != "" {
		return moduleOf(pass) == "std" || moduleOf(pass) == "cmd"
	}
	path := pass.Pkg.Path()
	first, _, _ := strings.Cut(path, "/")
	return standard().has(path) || standard().has(first) || slices.Contains([]string{"internal", "vendor", "cmd"}, first)
}

// annotate records the functions that have a directive.
func (p *packagePass) annotate() {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if g, isGen := d.(*ast.GenDecl); isGen {
				p.annotateErrors(g)
			}
			decl, isFunc := d.(*ast.FuncDecl)
			if !isFunc || decl.Doc == nil {
				continue
			}
			fn, _ := p.pass.TypesInfo.Defs[decl.Name].(*types.Func)
			for _, c := range decl.Doc.List {
				if fn == nil || !directive.Is(c) {
					continue
				}
				found, _ := directive.Parse(c)
				if found.Kind != directive.Step && found.Kind != directive.Workflow {
					continue
				}
				a := &Annotated{Kind: string(found.Kind), Counterpart: found.As}
				if a.Counterpart == "" {
					a.Counterpart, _ = name.Exported(decl.Name.Name)
				}
				p.annotated[fn] = a
				if found.Has("key") {
					p.keyPos[a.Counterpart] = found.Key.Pos
				}
			}
		}
	}
}

// annotateErrors records the variables that have a //flow:error directive.
func (p *packagePass) annotateErrors(g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec, isValue := s.(*ast.ValueSpec)
		if !isValue {
			continue
		}
		for _, doc := range []*ast.CommentGroup{g.Doc, spec.Doc} {
			if doc == nil {
				continue
			}
			for _, c := range doc.List {
				if found, _ := directive.Parse(c); !directive.Is(c) || found.Kind != directive.Error {
					continue
				}
				for _, id := range spec.Names {
					if v, isVar := p.pass.TypesInfo.Defs[id].(*types.Var); isVar {
						p.sentinels[v] = true
					}
				}
			}
		}
	}
}

// annotation returns the Annotated fact of a function of any package, or nil.
func (p *packagePass) annotation(fn *types.Func) *Annotated {
	if fn.Pkg() == p.pass.Pkg {
		return p.annotated[fn]
	}
	var a Annotated
	if p.pass.ImportObjectFact(fn, &a) {
		return &a
	}
	return nil
}

// solve computes the effects of the functions of the package.
func (p *packagePass) solve() {
	g := graph[*types.Func]{
		name:   display,
		direct: make(map[*types.Func][]Effect),
		calls:  make(map[*types.Func][]arc[*types.Func]),
	}
	for _, u := range p.units {
		if u.fn == nil {
			continue
		}
		generated := ast.IsGenerated(u.file)
		for _, pr := range u.prims {
			switch {
			case pr.rule == "context", u.isFlow && pr.rule != durable,
				generated && !slices.Contains(outwards, pr.rule), p.ignores.cutEffect(u, pr.pos, pr.rule):
				continue // The operation is not an effect of the function.
			}
			g.direct[u.fn] = append(g.direct[u.fn], Effect{Rule: pr.rule, What: pr.what, Pos: at(p.pass.Fset, pr.pos)})
		}
		for _, c := range u.calls {
			g.calls[u.fn] = append(g.calls[u.fn], arc[*types.Func]{to: c.fn, cut: func(rule Rule) bool {
				return u.isFlow && rule != durable || generated && !slices.Contains(outwards, rule) || p.ignores.cutEffect(u, c.pos, rule)
			}})
		}
	}
	p.effects = g.solve(func(fn *types.Func) []Effect {
		if fn.Pkg() == p.pass.Pkg {
			return nil
		}
		return p.imported(fn)
	})
}

// cutEffect reports whether a comment removes the effect of an operation from its function. In
// workflow code a comment only silences the report.
func (s *ignores) cutEffect(u *unit, pos token.Pos, rule Rule) bool {
	return !u.isFlow && s.cut(pos, rule)
}

// effectsOf returns the effects of a function of any package.
func (p *packagePass) effectsOf(fn *types.Func) []Effect {
	if fn.Pkg() == p.pass.Pkg {
		return p.effects[fn]
	}
	return p.imported(fn)
}

// isDurableFunc reports whether a function certainly executes a durable operation.
func (p *packagePass) isDurableFunc(fn *types.Func) bool {
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	if isEngine(fn.Pkg().Path()) {
		return isDurable(fn)
	}
	return slices.ContainsFunc(p.effectsOf(fn), func(e Effect) bool { return e.Rule == durable })
}

// judgeUnit reports the violations of all rules in one unit.
func (p *packagePass) judgeUnit(u *unit) {
	if u.isFlow {
		p.judgeEffects(u, ast.IsGenerated(u.file))
	}
	if ast.IsGenerated(u.file) {
		return
	}
	for _, check := range checks {
		check(p, u)
	}
}

// judgeEffects reports forbidden operations and calls of functions that have effects.
func (p *packagePass) judgeEffects(u *unit, onlyKeys bool) {
	keys := p.keyParts(u)
	for _, pr := range u.prims {
		r := ruleOf(pr.rule)
		if r == nil || p.keyAt(keys, Effect{Rule: pr.rule, What: pr.what}, pr.pos, pr.end) || onlyKeys {
			continue
		}
		var edits []analysis.SuggestedFix
		if fix := fixes[pr.rule]; fix != nil {
			edits = fix(p, u, pr)
		}
		p.report(pr.rule, pr.pos, pr.end, pr.what+" "+r.say(pr.what), edits...)
	}
	for _, c := range u.calls {
		if takes(c.fn.Signature(), isFlowContext) != nil {
			continue // The called function is workflow code and is judged separately.
		}
		for _, e := range p.effectsOf(c.fn) {
			if r := ruleOf(e.Rule); r != nil && !p.keyAt(keys, e, c.pos, c.end) && !onlyKeys {
				p.report(e.Rule, c.pos, c.end, e.String()+" "+r.say(e.What))
			}
		}
	}
}

// report adds a report to p.found, unless a comment silences it.
func (p *packagePass) report(rule Rule, pos, end token.Pos, text string, fixes ...analysis.SuggestedFix) {
	text += " [" + string(rule) + "]"
	for _, d := range p.found[rule] {
		if d.Pos == pos && d.Message == text {
			return
		}
	}
	if p.ignores.cut(pos, rule) {
		return
	}
	p.found[rule] = append(p.found[rule], analysis.Diagnostic{
		Pos: pos, End: end, Category: string(rule), Message: text, SuggestedFixes: fixes,
	})
}
