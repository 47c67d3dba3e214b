package compat

import (
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// orders compares the order of the operations of one workflow in both states.
type orders struct {
	c       *comparer
	subject string
	at      token.Position
	unknown map[string]bool // changes that only the new code declares by calls of Version
	latest  map[string]int  // the highest version of each change that runs of the old code can have
	waits   []*manifest.Op  // operations that moved only past waits and have been reported
	moved   []string        // names of the results of added and removed operations
}

// block describes the position of two lists of operations in a workflow.
type block struct {
	conditional bool // some runs skip the block
	last        bool // the run records nothing after the block except in other branches
}

func (o *orders) run(old, now *manifest.Workflow) {
	for name, h := range old.Decides {
		if n, ok := now.Decides[name]; ok && n != h {
			o.reportf(o.at, Care, "arg.other", "%s, which decides about operations, changed", name)
		}
	}
	before := o.renamed(renamedHelpers(old, now))
	o.block(before, o.numbered(asBefore(now.Ops, o.unknown)), block{last: true})
}

func (o *orders) reportf(at token.Position, class Class, row, format string, args ...any) {
	if at.Filename == "" {
		at = o.at
	}
	o.c.reportf(at, class, row, o.subject, format, args...)
}

// block compares the operations of a block in both states.
func (o *orders) block(old, now []*manifest.Op, in block) {
	partners := matched(old, now)
	var gone, added []*manifest.Op
	taken := map[int]bool{}
	for i, p := range partners {
		if p < 0 {
			gone = append(gone, old[i])
		} else {
			taken[p] = true
		}
	}
	for j, op := range now {
		if !taken[j] {
			added = append(added, op)
		}
	}
	o.pastWaits(old, now, partners, added)
	for _, op := range slices.Concat(gone, added) {
		o.moved = append(o.moved, resultsOf(op)...)
	}
	for i, p := range partners {
		if p >= 0 {
			after := in
			after.last = in.last && !records(now[p+1:])
			o.pair(old[i], now[p], after)
		}
	}
	for _, op := range gone {
		o.gone(op, added, in)
	}
	for j, op := range now {
		if !taken[j] {
			kept := slices.DeleteFunc(slices.Clone(now[j+1:]), func(n *manifest.Op) bool { return slices.Contains(added, n) })
			after := in
			after.last = in.last && !records(kept)
			o.added(op, gone, after)
		}
	}
}

// pastWaits reports operations that moved only past waits. For runs in which these waits are over,
// the order of records is unchanged.
func (o *orders) pastWaits(old, now []*manifest.Op, partners []int, added []*manifest.Op) {
	for i, p := range partners {
		j := slices.IndexFunc(now, func(n *manifest.Op) bool { return alike(old[i], n) && slices.Contains(added, n) })
		if p >= 0 || j < 0 || deciding[old[i].Op] {
			continue
		}
		var crossed []*manifest.Op
		for k, partner := range partners {
			if partner >= 0 && (k < i) != (partner < j) {
				crossed = append(crossed, now[partner])
			}
		}
		if len(crossed) > 0 && !records(crossed) {
			o.waits = append(o.waits, old[i], now[j])
			o.reportf(now[j].Position, Care, "gather", "%s is called before or after another wait than previously", title(old[i]))
		}
	}
}

// resultsOf returns the names that expressions use for the results of operations in op.
func resultsOf(op *manifest.Op) []string {
	var names []string
	manifest.Walk([]*manifest.Op{op}, func(inner *manifest.Op) {
		switch {
		case inner.Op == "receive" || inner.Op == "try receive":
			names = append(names, "receive "+inner.Name+"#")
		case inner.Op == "step" || inner.Op == "child" || inner.Op == "hook":
			names = append(names, inner.Name+"#")
		case !deciding[inner.Op]:
			names = append(names, inner.Op+"#")
		}
	})
	return names
}

// follows reports whether op refers to the result of an added or removed operation. A separate
// report about op is then superfluous.
func (o *orders) follows(op *manifest.Op) bool {
	return slices.ContainsFunc(o.moved, func(name string) bool {
		return strings.Contains(op.Text, name) || slices.ContainsFunc(op.Args, func(a string) bool { return strings.Contains(a, name) })
	})
}

// anyFollows reports whether ops contains an op of the given kind for which follows is true. Such
// an op may replace a missing op.
func (o *orders) anyFollows(kind string, ops []*manifest.Op) bool {
	return slices.ContainsFunc(ops, func(op *manifest.Op) bool { return op.Op == kind && o.follows(op) })
}

// records reports whether every run that executes ops records at least one of them.
func records(ops []*manifest.Op) bool {
	return slices.ContainsFunc(ops, func(o *manifest.Op) bool { return certain(o) || maybe(o) })
}

// certain reports whether every run that reaches o records it or an operation within it.
func certain(o *manifest.Op) bool {
	return o.Recorded() || (o.Branches() || turns(o)) && slices.ContainsFunc(o.Body, certain)
}

// turns reports whether a loop always has at least one iteration because it ranges over a number or
// a literal.
func turns(o *manifest.Op) bool {
	over, ok := strings.CutPrefix(o.Text, "range ")
	if o.Op != "loop" || !ok {
		return false
	}
	if n, err := strconv.Atoi(over); err == nil {
		return n > 0
	}
	return strings.HasPrefix(over, "[]") && strings.HasSuffix(over, "}") && !strings.HasSuffix(over, "{}")
}

// maybe reports whether a run that reaches o may record an operation within it.
func maybe(o *manifest.Op) bool {
	found := false
	for _, b := range o.Blocks() {
		manifest.Walk(b, func(inner *manifest.Op) { found = found || inner.Recorded() })
	}
	return found
}

// within reports whether ops contains an op that some runs skip and that contains an operation like
// o.
func within(ops []*manifest.Op, o *manifest.Op) bool {
	return slices.ContainsFunc(ops, func(c *manifest.Op) bool {
		found := false
		if !c.Branches() {
			for _, b := range c.Blocks() {
				manifest.Walk(b, func(inner *manifest.Op) { found = found || inner.Op == o.Op && inner.Name == o.Name })
			}
		}
		return found
	})
}

func title(o *manifest.Op) string { return strings.TrimSpace(o.Op + " " + o.Name) }

// gone reports that the new code lacks an operation of the old code.
func (o *orders) gone(op *manifest.Op, added []*manifest.Op, in block) {
	switch {
	case slices.Contains(o.waits, op):
	case deciding[op.Op] && !maybe(op):
		if !o.follows(op) && !o.anyFollows(op.Op, added) {
			o.decides(op, o.at, "was removed or changed")
		}
	case op.Op == "draw":
		o.reportf(o.at, Care, "draw", "a draw of random numbers was removed: later draws return different numbers")
	case op.Op == "version" && !in.conditional:
		o.reportf(o.at, Breaks, "version.gone", "the call of Version for the change %q was removed, but the logs of runs contain its version", op.Name)
	case turns(op) && certain(op) && !in.conditional && !slices.ContainsFunc(added, func(a *manifest.Op) bool { return !a.Branches() && shares(a, op) }):
		o.turnsGone(op, added)
	case !certain(op) || deciding[op.Op]:
		o.reportf(o.at, Care, "op.conditional", "%s was removed: the effect depends on which runs executed it", title(op))
	case in.conditional || within(added, op):
		o.reportf(o.at, Care, "op.conditional", "%s is no longer called in code that only some runs execute", title(op))
	case slices.ContainsFunc(added, func(a *manifest.Op) bool { return alike(op, a) }):
		o.reportf(o.at, Breaks, "op.swapped", "the order of the calls of %s changed", title(op))
	case slices.ContainsFunc(added, func(a *manifest.Op) bool { return a.Branches() && holds(a, op) }):
		o.reportf(o.at, Breaks, "branch.wrapped", "%s is now called in a branch, so its key is different", title(op))
	default:
		o.reportf(o.at, Breaks, "op.removed", "%s is no longer called", title(op))
	}
}

// turnsGone reports a removed loop that had an iteration in every run. The text of the report
// depends on whether an added block contains operations of the loop.
func (o *orders) turnsGone(op *manifest.Op, added []*manifest.Op) {
	if slices.ContainsFunc(added, func(a *manifest.Op) bool { return shares(a, op) }) {
		o.reportf(o.at, Breaks, "branch.wrapped", "the calls in a loop are now in branches, so their keys are different")
		return
	}
	o.reportf(o.at, Breaks, "op.removed", "the calls in a loop over %s were removed", short(strings.TrimPrefix(op.Text, "range ")))
}

// shares reports whether a and b are alike or contain operations that are alike.
func shares(a, b *manifest.Op) bool {
	found := false
	manifest.Walk([]*manifest.Op{a}, func(x *manifest.Op) {
		if !deciding[x.Op] {
			manifest.Walk([]*manifest.Op{b}, func(y *manifest.Op) { found = found || alike(x, y) })
		}
	})
	return found
}

// holds reports whether a branch of c contains an operation like o.
func holds(c, o *manifest.Op) bool {
	found := false
	manifest.Walk(c.Body, func(inner *manifest.Op) { found = found || inner.Op == o.Op && inner.Name == o.Name })
	return found
}

// added reports that the new code contains an additional operation.
func (o *orders) added(op *manifest.Op, gone []*manifest.Op, in block) {
	switch {
	case slices.Contains(o.waits, op):
	case deciding[op.Op] && !maybe(op):
		if !o.follows(op) && !o.anyFollows(op.Op, gone) {
			o.decides(op, op.Position, "was added or changed")
		}
	case op.Op == "draw":
		o.reportf(op.Position, Care, "draw", "a draw of random numbers was added: later draws return different numbers")
	case turns(op) && certain(op) && !in.conditional && !in.last && !slices.ContainsFunc(gone, func(g *manifest.Op) bool { return shares(g, op) }):
		o.reportf(op.Position, Breaks, "op.added", "the calls in a loop over %s were added before others", short(strings.TrimPrefix(op.Text, "range ")))
	case !certain(op) || deciding[op.Op]:
		o.reportf(op.Position, Care, "op.quiet", "%s was added: it writes a record only if it takes effect", title(op))
	case in.conditional || within(gone, op):
		o.reportf(op.Position, Care, "op.conditional", "%s was added in code that only some runs execute", title(op))
	case in.last:
		o.reportf(op.Position, Care, "op.last", "%s was added after all others: runs that have not passed the others are compatible", title(op))
	case slices.ContainsFunc(gone, func(g *manifest.Op) bool { return alike(op, g) }):
		o.reportf(op.Position, Breaks, "op.swapped", "the order of the calls of %s changed", title(op))
	default:
		o.reportf(op.Position, Breaks, "op.added", "%s was added before others", title(op))
	}
}

// decides reports a change of the control flow.
func (o *orders) decides(op *manifest.Op, at token.Position, what string) {
	switch op.Op {
	case "return":
		o.reportf(at, Care, "workflow.result", "a return %s", what)
	case "if", "switch", "case", "loop":
		o.reportf(at, Care, "cond", "the condition %s %s", short(op.Text), what)
	default:
		o.reportf(at, Care, "arg.other", "%s %s %s", title(op), short(op.Text), what)
	}
}

func short(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

// pair compares two versions of an operation.
func (o *orders) pair(old, now *manifest.Op, in block) {
	breaks := Breaks
	if in.conditional {
		breaks = Care
	}
	if strings.Contains(old.Key+now.Key+old.Queue+now.Queue, " ? ") { // The value depends on a condition.
		breaks = Care
	}
	switch {
	case old.Key != now.Key:
		o.reportf(now.Position, breaks, "options.key", "%s: the key of its context's options is %s and was %s", title(now), orNone(now.Key), orNone(old.Key))
	case old.Queue != now.Queue && (old.Queue == "" || now.Queue == ""):
		o.reportf(now.Position, Safe, "options.queue", "%s: the queue of its context's options is %s and was %s", title(now), orNone(now.Queue), orNone(old.Queue))
	case old.Queue != now.Queue:
		o.reportf(now.Position, Care, "options.queue", "%s: the queue of its context's options changed", title(now))
	}
	switch now.Op {
	case "step", "child", "continue":
		o.arguments(old, now, breaks)
	case "select":
		if !slices.Equal(old.Args, now.Args) {
			o.reportf(now.Position, breaks, "select.cases", "the cases of Select changed")
		}
	case "hook":
		o.values(old, now, breaks, "hook.token")
	case "set", "send", "answer":
		o.values(old, now, breaks, "value.set")
	case "sleep":
		if old.Text != now.Text {
			o.reportf(now.Position, Care, "sleep.length", "the computation of the sleep time changed: a sleep of zero duration writes no record")
		}
	case "version":
		o.version(old, now)
	case "guard":
		o.ways(old, now)
		return
	case "map":
		o.items(old, now)
	case "machine":
		o.machine(old, now)
		return
	case "graph":
		o.graph(old, now)
		return
	case "return", "let", "do", "leave":
	default:
		if old.Text != now.Text && !o.follows(now) && !o.follows(old) {
			o.text(old, now)
		}
		if !slices.Equal(old.Args, now.Args) && !o.follows(now) {
			o.reportf(now.Position, Care, "arg.other", "the arguments of %s changed", title(now))
		}
	}
	inner := block{conditional: in.conditional || !now.Branches() || now.Op == "map", last: true}
	o.block(old.Body, now.Body, inner)
	o.block(old.Else, now.Else, block{conditional: true, last: true})
}

// text reports a changed condition or a changed list of awaited operations.
func (o *orders) text(old, now *manifest.Op) {
	row := "cond"
	switch now.Op {
	case "loop":
		row = "loop.turns"
	case "all", "settled", "first", "any":
		row = "gather"
	case "read":
		row = "read.kind"
	}
	o.reportf(now.Position, Care, row, "%s: %s was %s", title(now), short(now.Text), short(old.Text))
}

func (o *orders) items(old, now *manifest.Op) {
	if old.Text != now.Text && !o.follows(now) {
		o.reportf(now.Position, Care, "map.items", "the items of a Map are %s and were %s", short(now.Text), short(old.Text))
	}
	if old.Limit != now.Limit {
		o.reportf(now.Position, Care, "map.limit", "the limit of a Map is %s and was %s: it is compatible above the number of items", orNone(now.Limit), orNone(old.Limit))
	}
	if old.Name != now.Name {
		o.reportf(now.Position, Care, "map.settled", "whether a failure of one item ends the others changed")
	}
}

// values compares arguments by position.
func (o *orders) values(old, now *manifest.Op, breaks Class, row string) {
	if len(old.Args) != len(now.Args) {
		o.reportf(now.Position, breaks, row, "the arguments of %s changed", title(now))
		return
	}
	for i := range now.Args {
		o.value(old.Args[i], now.Args[i], now, breaks, row)
	}
}

func literal(s string) bool { return s == manifest.Zero || strings.HasPrefix(s, manifest.Literal) }

// value compares two versions of an argument.
func (o *orders) value(old, now string, op *manifest.Op, breaks Class, row string) {
	switch {
	case old == now || o.follows(op):
	case literal(old) && literal(now) && !retyped(bare(old), bare(now)):
		o.reportf(op.Position, breaks, row, "%s gets %s and got %s", title(op), bare(now), bare(old))
	default:
		o.reportf(op.Position, Care, "arg.other", "%s gets %s and got %s: it fits if that is the same", title(op), short(bare(now)), short(bare(old)))
	}
}

// retyped reports whether two literals differ only in their types, so that their JSON may be equal.
func retyped(old, now string) bool {
	_, a, ok := strings.Cut(old, "{")
	_, b, too := strings.Cut(now, "{")
	return ok && too && a == b && !strings.HasPrefix(old, `"`) && !strings.HasPrefix(now, `"`)
}

func bare(s string) string { return strings.TrimPrefix(s, manifest.Literal) }

// arguments compares the arguments of steps and children, which are stored by parameter name.
func (o *orders) arguments(old, now *manifest.Op, breaks Class) {
	was, is := o.c.old.paramsOf(o.c.oldName(old.Name)), o.c.now.paramsOf(now.Name)
	if len(was) != len(old.Args) || len(is) != len(now.Args) { // One version passes several inputs in one structure, or calls a function of another module.
		o.values(old, now, breaks, "arg.constant")
		return
	}
	for i, name := range is {
		if j := slices.Index(was, name); j >= 0 {
			o.value(old.Args[j], now.Args[i], now, breaks, "arg.constant")
			continue
		}
		switch arg := now.Args[i]; {
		case arg == manifest.Zero:
		case literal(arg):
			o.reportf(now.Position, breaks, "param.added", "%s gets %s for the new parameter %s", title(now), bare(arg), name)
		default:
			o.reportf(now.Position, Care, "param.added", "%s gets %s for the new parameter %s: it fits while that is empty", title(now), short(arg), name)
		}
	}
}

// paramsOf returns the stored parameter names of a step or workflow.
func (x *index) paramsOf(name string) []string {
	var params []manifest.Param
	if s := x.steps[name]; s != nil {
		params = s.Params
	} else if w := x.workflows[name]; w != nil {
		params = w.Params
	}
	names := []string{}
	for _, p := range params {
		names = append(names, p.Name)
	}
	return names
}

// oldName returns the old stored name of the item with the current stored name.
func (c *comparer) oldName(now string) string {
	for old, name := range c.renamed {
		if name == now {
			return old
		}
	}
	return now
}

func (o *orders) version(old, now *manifest.Op) {
	if now.Latest < old.Latest {
		o.reportf(now.Position, Care, "version.way", "the change %q has version %d and had %d", now.Name, now.Latest, old.Latest)
	}
	if now.Least != old.Least {
		o.reportf(now.Position, Care, "version.least", "AtLeast of the change %q is %s and was %s", now.Name, orNone(now.Least), orNone(old.Least))
	}
}

// ways compares the branches of a guard, which runs execute depending on their version of a change.
func (o *orders) ways(old, now *manifest.Op) {
	for v, way := range old.Ways {
		switch {
		case v >= len(now.Ways):
			o.reportf(now.Position, Care, "version.way", "the code of version %d of the change %q was removed", v, now.Name)
		case !sameWay(asBefore(way, o.unknown), now.Ways[v]):
			o.reportf(now.Position, Care, "version.way", "the code of version %d of the change %q changed", v, now.Name)
		}
	}
}
