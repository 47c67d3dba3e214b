package manifest

import "github.com/flowgen/flowgen/internal/model"

// machine returns what a workflow does that is a machine: a state for each of its steps. Which of
// them a run has come to depends on what the steps returned, and that is recorded.
func (x *walker) machine(m *model.Machine) []*Op {
	o := &Op{Op: "machine", Text: "begins with " + m.Start.Stored}
	for _, s := range m.Steps {
		state := &Op{Op: "state", Name: s.Stored, Body: []*Op{{Op: "step", Name: s.Stored, Position: x.pkg.Position(s.Pos())}}}
		if s.Catch != nil {
			state.Text = "a failure leads to " + s.Catch.Stored
		}
		state.Position = x.pkg.Position(s.Pos())
		o.Body = append(o.Body, state)
	}
	return []*Op{o}
}
