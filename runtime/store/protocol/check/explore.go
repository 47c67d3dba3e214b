package check

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A model is a set of states and the steps between them.
type model[S comparable] struct {
	init  S
	next  func(S, emit[S])
	check func(S) string // returns a description of the first broken invariant, or ""
	goal  func(S) bool   // reports whether all runs have ended
}

// emit reports one step. fault is set for steps that the environment may take but need not take: a
// crash, a delay, a failover. The progress check does not use them. wrong is not empty if the step
// itself breaks a rule.
type emit[S comparable] func(l label, fault bool, s S, wrong string)

// label describes a step. It is formatted only if a counterexample is printed.
type label struct {
	verb string
	args [3]uint8
	n    uint8
	note string
}

func say(verb string, args ...uint8) label {
	l := label{verb: verb, n: uint8(len(args))}
	copy(l.args[:], args)
	return l
}

func (l label) String() string {
	var args []any
	for _, a := range l.args[:l.n] {
		args = append(args, a)
	}
	if l.note == "" {
		return fmt.Sprintf(l.verb, args...)
	}
	return fmt.Sprintf(l.verb, args...) + ": " + l.note
}

// result contains the findings of an exploration.
type result struct {
	states, steps int
	wrong         string  // description of the broken rule, or ""
	trace         []label // a shortest sequence of steps that leads to the broken rule
	truncated     bool    // the exploration reached its limit, and progress was not checked
}

func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d steps", r.states, r.steps)
	if r.truncated {
		b.WriteString(", limit reached")
	}
	if r.wrong != "" {
		fmt.Fprintf(&b, ": %s", r.wrong)
	}
	for i, l := range r.trace {
		fmt.Fprintf(&b, "\n\t%2d %s", i+1, l)
	}
	return b.String()
}

// seeds are the seeds of two hashes. Together the hashes identify a state.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func key[S comparable](s S) [2]uint64 {
	return [2]uint64{maphash.Comparable(seeds[0], s), maphash.Comparable(seeds[1], s)}
}

// search is one exploration. States are numbered in the order in which they are found.
type search[S comparable] struct {
	m        model[S]
	ids      map[[2]uint64]uint32
	parent   []uint32
	via      []label
	goal     []bool
	from, to []uint32 // transitions that are not faults, as numbers of states
	next     []S
	res      result
}

// explore visits all states breadth first, so the first counterexample is a shortest one.
func explore[S comparable](m model[S], limit int) result {
	x := &search[S]{m: m, ids: map[[2]uint64]uint32{}}
	x.add(0, label{}, m.init)
	for base := uint32(0); len(x.next) > 0 && x.res.wrong == ""; {
		layer := x.next
		x.next = nil
		for i, s := range layer {
			if x.res.wrong != "" {
				break
			}
			x.expand(base+uint32(i), s)
		}
		base += uint32(len(layer))
		if len(x.parent) > limit {
			x.res.truncated = true
			break
		}
	}
	x.res.states = len(x.parent)
	if x.res.wrong == "" && !x.res.truncated {
		x.checkProgress()
	}
	return x.res
}

// expand takes all steps from state s, which has number cur.
func (x *search[S]) expand(cur uint32, s S) {
	x.m.next(s, func(l label, fault bool, n S, wrong string) {
		if x.res.wrong != "" {
			return
		}
		x.res.steps++
		if wrong != "" {
			x.res.wrong, x.res.trace = wrong, append(x.trace(cur), l)
			return
		}
		id, known := x.ids[key(n)]
		if !known {
			id = x.add(cur, l, n)
		}
		if !fault && id != cur {
			x.from, x.to = append(x.from, cur), append(x.to, id)
		}
	})
}

func (x *search[S]) add(parent uint32, l label, s S) uint32 {
	id := uint32(len(x.parent))
	x.ids[key(s)] = id
	x.parent, x.via = append(x.parent, parent), append(x.via, l)
	x.goal, x.next = append(x.goal, x.m.goal(s)), append(x.next, s)
	if wrong := x.m.check(s); wrong != "" {
		x.res.wrong, x.res.trace = wrong, x.trace(id)
	}
	return id
}

func (x *search[S]) trace(id uint32) []label {
	var t []label
	for ; id != 0; id = x.parent[id] {
		t = append(t, x.via[id])
	}
	slices.Reverse(t)
	return t
}

// checkProgress checks that the end can be reached from every state without a fault. It searches
// backwards from the goals.
func (x *search[S]) checkProgress() {
	n := len(x.parent)
	head := make([]uint32, n+1)
	for _, t := range x.to {
		head[t+1]++
	}
	for i := range n {
		head[i+1] += head[i]
	}
	before, fill := make([]uint32, len(x.to)), slices.Clone(head)
	for i, t := range x.to {
		before[fill[t]] = x.from[i]
		fill[t]++
	}
	good := slices.Clone(x.goal)
	var queue []uint32
	for i, g := range good {
		if g {
			queue = append(queue, uint32(i))
		}
	}
	for len(queue) > 0 {
		t := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, f := range before[head[t]:head[t+1]] {
			if !good[f] {
				good[f] = true
				queue = append(queue, f)
			}
		}
	}
	if i := slices.Index(good, false); i >= 0 {
		x.res.wrong, x.res.trace = "stuck: there is no way to the end without a fault", x.trace(uint32(i))
	}
}
