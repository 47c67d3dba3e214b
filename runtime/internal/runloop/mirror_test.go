package runloop_test

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

// mirror is a second State of a host. It receives the same inputs as the first one and the recorded
// answers of the driver, and must return the same actions.
type mirror struct {
	params   runloop.Params
	state    runloop.State
	memory   *runloop.Memory
	answers  []any // answers of the driver during the current call
	failed   string
	commits  map[*runloop.Commit]*runloop.Commit // commits of the first State, to those of this one
	openings map[*runloop.Opening]*runloop.Opening
}

// noted records an answer of the driver for the mirror.
func noted[T any](m *mirror, answer T) T {
	if m != nil {
		m.answers = append(m.answers, answer)
	}
	return answer
}

// recorded returns the next recorded answer.
func recorded[T any](m *mirror) (answer T) {
	if len(m.answers) > 0 {
		next, ok := m.answers[0].(T)
		m.answers = m.answers[1:]
		if ok {
			return next
		}
	}
	m.failed = "it asks the driver another question"
	return answer
}

// react passes an input to the mirror and compares its actions with those of the first State.
func (m *mirror) react(h *host, in *runloop.Input, actions []runloop.Action) []runloop.Action {
	if m == nil {
		return actions
	}
	own := *in
	if in.Commit != nil {
		own.Commit = m.commits[in.Commit]
		own.Commit.Answer = h.answer
	}
	if in.Opening != nil {
		own.Opening = m.openings[in.Opening]
	}
	if in.Outcome != nil {
		own.Outcome = h.outcomes[in.Outcome].build()
	}
	return m.compare(h, actions, m.state.React(m, own))
}

func (m *mirror) proceed(h *host, actions []runloop.Action) []runloop.Action {
	if m == nil {
		return actions
	}
	return m.compare(h, actions, m.state.Proceed(m))
}

func (m *mirror) compare(h *host, actions, own []runloop.Action) []runloop.Action {
	if m.failed == "" && len(m.answers) > 0 {
		m.failed = fmt.Sprintf("it leaves %d answers of the driver", len(m.answers))
	}
	for i := range max(len(actions), len(own)) {
		var first, second string
		if i < len(actions) {
			first = line(&actions[i])
		}
		if i < len(own) {
			second = line(&own[i])
		}
		if first != second {
			m.failed = fmt.Sprintf("action %d is\n%s, want\n%s", i, second, first)
			break
		}
		if c := actions[i].Commit; c != nil {
			m.commits[c] = own[i].Commit
		}
	}
	if m.failed != "" {
		h.failf("P7: a second State with the same inputs differs: %s", m.failed)
	}
	return actions
}

// The following methods implement [runloop.Driver].

func (m *mirror) Moment(*runloop.Claim) runloop.Moment  { return recorded[runloop.Moment](m) }
func (m *mirror) Enter()                                {}
func (m *mirror) Leave(c *runloop.Claim) runloop.Moment { return m.Moment(c) }
func (m *mirror) Memory() *runloop.Memory               { return m.memory }
func (m *mirror) TakeSlot() bool                        { return recorded[bool](m) }
func (m *mirror) Full() bool                            { return recorded[bool](m) }
func (m *mirror) Roomy() bool                           { return recorded[bool](m) }
func (m *mirror) ClosedStreams(uint64) []string         { return nil }
func (m *mirror) CommitID() event.CommitID              { return recorded[event.CommitID](m) }
func (m *mirror) roll() float64                         { return recorded[float64](m) }

func (m *mirror) Turn() (number int, alone, begun bool) {
	t := recorded[[3]int](m)
	return t[0], t[1] == 1, t[2] == 1
}
