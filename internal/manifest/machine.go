package manifest

import (
	"strconv"

	"github.com/flowgen/flowgen/internal/model"
)

// machine returns the operations of a machine workflow. They contain a state for each step.
// Transitions are not part of the manifest, because the results of steps determine them and are
// recorded.
func (x *walker) machine(m *model.Machine) []*Op {
	o := &Op{Op: "machine", Text: m.Start.Stored, Position: x.pkg.Position(m.Type.Pos())}
	if limit := m.Limit(); limit > 0 {
		o.Limit = strconv.Itoa(limit)
	}
	for _, s := range m.Steps {
		position := x.pkg.Position(s.Pos())
		state := &Op{Op: "state", Name: s.Stored, Always: always(m, s), Body: []*Op{{Op: "step", Name: s.Stored, Position: position}}, Position: position}
		if s.Catch != nil {
			state.Text = s.Catch.Stored
		}
		o.Body = append(o.Body, state)
	}
	return []*Op{o}
}

// always reports whether every known path from the start of a machine to its end contains a step. A
// step whose transitions are not known may lead to the end.
func always(m *model.Machine, step *model.Step) bool {
	seen := map[*model.Step]bool{step: true}
	var ends func(from *model.Step) bool
	ends = func(from *model.Step) bool {
		if seen[from] {
			return false
		}
		seen[from] = true
		known := false
		for _, e := range m.Edges {
			if e.From != from {
				continue
			}
			if known = true; e.To == nil || ends(e.To) {
				return true
			}
		}
		return !known
	}
	return !ends(m.Start)
}
