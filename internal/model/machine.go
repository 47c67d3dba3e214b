package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/spelling"
)

const stepPath = runtimePath + "step"

// Machine is a type with //flow:machine. It declares a workflow whose steps are methods that choose
// the next step.
type Machine struct {
	Type   *types.TypeName
	Start  *Step
	Steps  []*Step       // in source order
	Result types.Type    // the second type argument of step.Next
	Needs  []*Dependency // for the unexported fields, in the order of the fields
	Edges  []Edge        // in source order

	spec      *ast.TypeSpec
	directive directive.Directive
	goName    string // name of the generated definition
	doc       string
	unusable  bool // a mistake was reported
}

// Edge is a possible transition from a step to another step or to the end of the machine.
type Edge struct {
	From, To *Step  // To is nil for the end of the machine
	Label    string // condition; empty if there is none
}

// GoName returns the Go name of the machine's generated definition.
func (m *Machine) GoName() string { return m.goName }

// Limit returns the maximum number of steps that a run may begin. It is 0 if there is no maximum.
func (m *Machine) Limit() int { return m.directive.Max }

// title returns the name of the machine for messages.
func (m *Machine) title() string { return "machine " + m.Type.Name() }

// stepTitle returns the name of a step of the machine for messages.
func (m *Machine) stepTitle(impl string) string { return "step " + impl + " of " + m.title() }

// declareMachine adds a type with //flow:machine to the builder. The steps are added later.
func (b *builder) declareMachine(a annotation) {
	spec, ok := a.node.(*ast.TypeSpec)
	if !ok || !isMachine(a.directives) || isGraph(a.directives) {
		return
	}
	d := a.directives[0]
	obj, ok := b.Info.Defs[spec.Name].(*types.TypeName)
	if !ok {
		b.report(spec.Name.Pos(), describe(spec)+" is not part of the package", "mend the errors of the compiler first")
		return
	}
	m := &Machine{Type: obj, spec: spec, directive: d, doc: prose(a.doc)}
	b.machines = append(b.machines, m)
	before := len(b.diagnostics)
	if len(a.directives) > 1 {
		b.report(a.directives[1].Pos, describe(spec)+" has two directives", "keep one")
	}
	m.goName, _ = name.Exported(spec.Name.Name)
	if token.IsExported(spec.Name.Name) && !d.Has("as") {
		b.report(spec.Name.Pos(), m.title()+" is exported, and so is what is generated from it",
			"rename it to "+name.Unexported(spec.Name.Name)+": the definition of the workflow takes the exported name; or keep it and name that with as=Name")
	} else {
		m.goName, _ = b.goName(spec.Name.Pos(), spec.Name.Name, d)
	}
	_, isStruct := obj.Type().Underlying().(*types.Struct)
	switch {
	case obj.IsAlias():
		b.report(spec.Name.Pos(), m.title()+" is an alias", "declare a struct type of its own")
	case spec.TypeParams != nil:
		b.report(spec.TypeParams.Pos(), m.title()+" has type parameters", "write it for concrete types")
	case !isStruct:
		b.report(spec.Name.Pos(), fmt.Sprintf("%s is no struct but %s", m.title(), types.TypeString(obj.Type().Underlying(), types.RelativeTo(b.Types))),
			"declare a struct: its exported fields are kept from step to step, the others are the dependencies of the steps")
	default:
		b.scratchpad(m)
	}
	m.unusable = len(b.diagnostics) > before
}

// machineOf returns the machine of which a function with signature sig is a method, or nil.
func (b *builder) machineOf(sig *types.Signature) *Machine {
	recv := sig.Recv()
	if recv == nil {
		return nil
	}
	t := types.Unalias(recv.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(b.machines, func(m *Machine) bool { return m.Type == named.Obj() })
	if i < 0 {
		return nil
	}
	return b.machines[i]
}

// nextOf returns the type arguments of step.Next, or nil if t is another type.
func nextOf(t types.Type) *types.TypeList {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg().Path() != stepPath || named.Obj().Name() != "Next" || named.TypeArgs().Len() != 2 {
		return nil
	}
	return named.TypeArgs()
}

// isCaught reports whether t is step.Failure.
func isCaught(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == stepPath && named.Obj().Name() == "Failure"
}

// nameInMachine sets the names of a machine step that its directive does not set. These names begin
// with the name of the machine, so that steps of different machines can be named alike.
func (b *builder) nameInMachine(fn *Function, m *Machine) {
	if !fn.Directive.Has("as") {
		fn.GoName = m.goName + fn.GoName
	}
	fn.Stored = b.stored(m.Type.Name()+"."+fn.Impl, fn.Directive)
}

// stepOfMachine checks the additional requirements of a machine step and adds the step to its
// machine.
func (b *builder) stepOfMachine(decl *ast.FuncDecl, s *Step) {
	m := s.Machine
	title := m.stepTitle(s.Impl)
	if _, pointer := types.Unalias(s.sig.Recv().Type()).(*types.Pointer); !pointer {
		b.report(decl.Recv.Pos(), title+" has a value receiver, so what it writes to the machine would be lost", "take *"+m.Type.Name())
	}
	if s.Variadic {
		b.report(decl.Type.Params.List[len(decl.Type.Params.List)-1].Pos(), title+" is variadic", "take a slice")
	}
	m.Steps = append(m.Steps, s)
	args := nextOf(s.Result)
	if s.Result == nil || args == nil {
		b.report(decl.Type.Results.Pos(), title+" does not return where it leads", fmt.Sprintf("return (step.Next[%s, R], error), where R is the result of the machine", m.Type.Name()))
		m.unusable = true
		return
	}
	if named, ok := types.Unalias(args.At(0)).(*types.Named); !ok || named.Obj() != m.Type {
		b.report(decl.Type.Results.Pos(), fmt.Sprintf("%s leads to steps of %s", title, types.TypeString(args.At(0), types.RelativeTo(b.Types))), "return step.Next["+m.Type.Name()+", R]")
		m.unusable = true
		return
	}
	s.next = args.At(1)
}

// completeMachines performs the checks that need all steps of a machine, and adds the machines to
// the model as workflows.
func (b *builder) completeMachines() {
	for _, m := range b.machines {
		if len(m.Steps) == 0 && m.unusable {
			continue
		}
		if len(m.Steps) == 0 {
			b.report(m.spec.Name.Pos(), m.title()+" has no steps", "annotate its methods with //flow:step")
			continue
		}
		slices.SortFunc(m.Steps, func(x, y *Step) int { return b.comparePos(x.pos, y.pos) })
		b.start(m)
		b.oneResult(m)
		for _, s := range m.Steps {
			b.caughtBy(m, s)
		}
		b.constructors(m)
		b.needsOnly(m)
		if m.unusable || m.Start == nil {
			continue
		}
		b.edges(m)
		b.asWorkflow(m)
	}
}

// machineStep returns the step of a machine that an option names. If there is none, machineStep
// reports the mistake and returns nil.
func (b *builder) machineStep(m *Machine, d directive.Directive, option, id string) *Step {
	var names []string
	for _, s := range m.Steps {
		if s.Impl == id {
			return s
		}
		names = append(names, s.Impl)
	}
	fix := "name one of " + strings.Join(names, ", ")
	if near := spelling.Nearest(id, names); near != "" {
		fix = "did you mean " + near + "?"
	} else if obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(m.Type.Type()), true, b.Types, id); obj != nil {
		if _, isMethod := obj.(*types.Func); isMethod {
			fix = "annotate method " + id + " with //flow:step"
		}
	}
	b.report(d.At(option), fmt.Sprintf("%s=%s: %s has no such step", option, id, m.title()), fix)
	return nil
}

func (b *builder) start(m *Machine) {
	d := m.directive
	switch {
	case d.Start != "":
		m.Start = b.machineStep(m, d, "start", d.Start)
	case !d.Has("start"): // if the value is invalid, this was reported
		b.report(d.Pos, m.title()+" does not say where it starts", "add start="+m.Steps[0].Impl+", or another of its steps")
	}
}

// oneResult checks that all steps of a machine have the same result type.
func (b *builder) oneResult(m *Machine) {
	for _, s := range m.Steps {
		switch {
		case s.next == nil:
		case m.Result == nil:
			m.Result = s.next
			b.faults(s.decl, s.decl.Type.Results.Pos(), m.title(), b.payload("result", s.next))
		case !types.Identical(m.Result, s.next):
			relative := types.RelativeTo(b.Types)
			b.report(s.decl.Type.Results.Pos(), fmt.Sprintf("%s leads to a result of type %s, and other steps to one of type %s", m.stepTitle(s.Impl), types.TypeString(s.next, relative), types.TypeString(m.Result, relative)),
				"let all steps of a machine lead to results of one type")
			m.unusable = true
		}
	}
}

// caughtBy sets the step that catch= names.
func (b *builder) caughtBy(m *Machine, s *Step) {
	d := s.Directive
	if d.Catch == "" {
		return
	}
	by := b.machineStep(m, d, "catch", d.Catch)
	switch {
	case by == nil:
	case by == s:
		b.report(d.At("catch"), fmt.Sprintf("catch=%s leads from the step to itself", d.Catch), "name another step, or allow it more attempts with retries=")
	case len(by.Params) > 1 || len(by.Params) == 1 && !isCaught(by.Params[0].Type):
		b.report(d.At("catch"), fmt.Sprintf("catch=%s: the step takes other things than a failure", d.Catch), "let it take one step.Failure behind the context, or nothing")
	default:
		s.Catch = by
	}
}

// asWorkflow adds the workflow of a machine to the model. The parameters of the start step are the
// input of the workflow.
func (b *builder) asWorkflow(m *Machine) {
	fn := m.Start.Function
	fn.Impl, fn.GoName, fn.Stored = m.Type.Name(), m.goName, b.stored(m.Type.Name(), m.directive)
	fn.Doc, fn.Directive, fn.Result, fn.pos = m.doc, m.directive, m.Result, m.spec.Name.Pos()
	fn.Params = slices.Clone(fn.Params)
	b.scheduled(&fn)
	fn.Uses = b.uses(&fn)
	w := &Workflow{Function: fn, Machine: m}
	b.starts(w)
	b.model.Workflows = append(b.model.Workflows, w)
	for _, d := range m.Needs {
		d.Steps = append(d.Steps, m.Steps...)
	}
}
