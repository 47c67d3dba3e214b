package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// machine contains the states and transitions of a run of a state machine, derived from its log.
// The states are those that were entered or that can be entered next, in the order in which they
// first appear in the log.
type machine struct {
	states []uint32 // indexes into the texts of the skeleton
	hops   map[hop]int
	topics map[hop]uint32 // topics that transitions wait for
	asked  map[uint32]bool
	now    uint32 // the state that was entered last
	ended  bool
}

// hop is a transition between two states.
type hop struct{ from, to uint32 }

// maxStates is the maximum number of states that are drawn.
const maxStates = 24

// stepOfMachine is the prefix of the arguments of the steps of state machines, in the encoding of
// package shim.
var stepOfMachine = []byte(`{"state":`)

// moved is the result of a step of a state machine, in the encoding of package shim.
type moved struct {
	Next *nextState `json:"next"`
}

type nextState struct {
	Step  string `json:"step"`
	Done  bool   `json:"done"`
	Waits []struct {
		Topic string `json:"topic"`
		Step  string `json:"step"`
	} `json:"waits"`
	Then *nextState `json:"then"` // next state after a timeout without a message
}

// follow records an event of a run that may be a state machine. It counts a transition when the
// target state is entered. The result of a step contains the transitions that are possible next.
func (s *skeleton) follow(e *admin.Event) {
	m := s.machine
	switch {
	case e.Type == "step_created" && bytes.HasPrefix(e.Payload, stepOfMachine) && bytes.Contains(e.Payload, []byte(`"args":`)):
		state := s.text(e.Name)
		if m == nil {
			m = &machine{hops: map[hop]int{}, topics: map[hop]uint32{}, asked: map[uint32]bool{}}
			s.machine = m
		} else {
			m.hops[hop{m.now, state}]++
		}
		m.enter(state)
		m.now, m.asked[uint32(e.Ref)] = state, true
	case e.Type == "step_completed" && m != nil && m.asked[uint32(e.Ref)]:
		delete(m.asked, uint32(e.Ref))
		var to moved
		if json.Unmarshal(e.Payload, &to) == nil && to.Next != nil {
			s.ahead(m, to.Next)
		}
	}
}

// ahead records the states that the machine can enter next.
func (s *skeleton) ahead(m *machine, to *nextState) {
	way := func(step string) hop {
		h := hop{m.now, s.text(step)}
		m.enter(h.to)
		m.hops[h] += 0
		return h
	}
	if to.Step != "" {
		way(to.Step)
	}
	for _, w := range to.Waits {
		m.topics[way(w.Step)] = s.text(w.Topic)
	}
	m.ended = m.ended || to.Done
	if to.Then != nil && to.Then.Then == nil {
		if to.Then.Step != "" {
			way(to.Then.Step)
		}
	}
}

func (m *machine) enter(state uint32) {
	if !slices.Contains(m.states, state) && len(m.states) < maxStates {
		m.states = append(m.states, state)
	}
}

// machineView is a drawing of a state machine. Numbers are in units of its viewBox.
type machineView struct {
	Width, Height int
	Nodes         []stateView
	Ways          []wayView
	Said          string // description for screen readers
}

type stateView struct {
	X, TextX, Y int
	TextY       int
	Label, Full string
	Kind        string // now, been or ahead
}

type wayView struct {
	Path  string
	Text  string
	X, Y  int
	Taken bool
}

// Sizes of a drawing, in units of its viewBox.
const (
	stateWidth  = 132
	stateHeight = 34
	stateStep   = 184
	arcStep     = 16
)

// machineOf returns a drawing of the state machine in a log. It returns nil if the run is not a
// state machine.
func (s *skeleton) machineOf() *machineView {
	m := s.machine
	if m == nil || len(m.states) == 0 {
		return nil
	}
	been := map[uint32]bool{m.states[0]: true, m.now: true}
	for h, n := range m.hops {
		been[h.from] = true
		if n > 0 {
			been[h.to] = true
		}
	}
	above, below := m.arcs()
	top := 10 + above*arcStep
	v := &machineView{Width: (len(m.states)-1)*stateStep + stateWidth + 4, Height: top + stateHeight + below*arcStep + 24}
	var said []string
	for i, state := range m.states {
		name := s.texts[state]
		n := stateView{X: 2 + i*stateStep, TextX: 2 + i*stateStep + stateWidth/2, Y: top, TextY: top + stateHeight/2 + 4, Label: cut(16, short(name)), Full: name, Kind: "ahead"}
		switch {
		case state == m.now && !m.ended:
			n.Kind = "now"
		case been[state]:
			n.Kind = "been"
		}
		said = append(said, short(name)+": "+map[string]string{"now": "is in it", "been": "has been in it", "ahead": "may come"}[n.Kind])
		v.Nodes = append(v.Nodes, n)
	}
	v.Said = cut(600, strings.Join(said, "; "))
	v.ways(s, m, top)
	return v
}

// short returns the name of a step without its package and type.
func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// arcs returns the number of levels of arcs that the drawing needs. Transitions that skip states
// are above the states, and transitions that go back are below.
func (m *machine) arcs() (above, below int) {
	for h := range m.hops {
		from, to := slices.Index(m.states, h.from), slices.Index(m.states, h.to)
		switch {
		case from < 0 || to < 0:
		case to > from+1:
			above = max(above, min(to-from, 4))
		case to <= from:
			below = max(below, min(from-to+1, 4))
		}
	}
	return above, below
}

// ways draws the transitions that the machine has made and those that it can make next.
func (v *machineView) ways(s *skeleton, m *machine, top int) {
	var all []hop
	for h := range m.hops {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b hop) int { return (int(a.from)-int(b.from))*10_000 + int(a.to) - int(b.to) })
	for _, h := range all {
		from, to := slices.Index(m.states, h.from), slices.Index(m.states, h.to)
		if from < 0 || to < 0 {
			continue
		}
		w := wayView{Taken: m.hops[h] > 0}
		if topic, ok := m.topics[h]; ok {
			w.Text = "on " + cut(12, s.texts[topic])
		}
		if n := m.hops[h]; n > 1 {
			w.Text = strings.TrimSpace(w.Text + " ×" + number(n))
		}
		w.draw(from, to, top)
		v.Ways = append(v.Ways, w)
	}
}

func (w *wayView) draw(from, to, top int) {
	left := func(i int) int { return 2 + i*stateStep }
	middle := func(i int) int { return left(i) + stateWidth/2 }
	p := func(cmd string, x, y int) string { return cmd + strconv.Itoa(x) + " " + strconv.Itoa(y) }
	w.X = (middle(from) + middle(to)) / 2
	switch {
	case to == from+1:
		y := top + stateHeight/2
		w.Path, w.Y = p("M", left(from)+stateWidth, y)+p("L", left(to)-5, y), y-6
	case to > from:
		y := top - min(to-from, 4)*arcStep
		w.Path, w.Y = p("M", middle(from)+10, top)+p("C", middle(from)+10, y)+p(" ", middle(to)-10, y)+p(" ", middle(to)-10, top-5), y+8
	default:
		bottom := top + stateHeight
		y := bottom + min(from-to+1, 4)*arcStep
		w.Path, w.Y = p("M", middle(from)+18, bottom)+p("C", middle(from)+18, y)+p(" ", middle(to)-18, y)+p(" ", middle(to)-18, bottom+5), y+4
	}
}
