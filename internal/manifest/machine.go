package manifest

import (
	"strconv"

	"github.com/flowgen/flowgen/internal/model"
)

// machine returns what a workflow does that is a machine: a state for each of its steps. Which of
// them a run has come to depends on what the steps returned, and that is recorded: where a step leads
// is no part of the manifest.
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

// always reports whether no way from the start of a machine to an end leaves out a step. Ways that
// the code takes are not all known: a step of which none is known may lead to an end.
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
