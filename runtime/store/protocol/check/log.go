package check

import (
	"encoding/binary"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// node is one commit record that follows a log. A log is identified by the number of its last node.
type node struct {
	prev  uint16
	kind  kind
	item  uint8
	gen   uint8    // for a first record: 0 if the run may continue, 1 if it does not
	carry [2]uint8 // for a first record: items that the previous run had received but not taken
}

type kind byte

// Kinds of commit records.
const (
	runCreated    kind = 'c'
	stepStarted   kind = 's'
	stepCompleted kind = 'd'
	itemReceived  kind = 'm'
	waitBegan     kind = 'w'
	timerFired    kind = 't'
	runContinued  kind = 'C'
	runCompleted  kind = 'F'
	runCanceled   kind = 'X'
)

// outcome is the state of a run after the replay of a log.
type outcome struct {
	n                           uint8
	started, done, waits, fired bool
	canceled                    bool
	received                    []uint8
	terminal                    kind
	gen                         uint8
	wrong                       string
}

// logs assigns numbers to all logs of one exploration.
type logs struct {
	nodes    []node
	ids      map[node]uint16
	outcomes []outcome
	frames   [][]byte
}

func newLogs() *logs {
	return &logs{nodes: []node{{}}, ids: map[node]uint16{}, outcomes: []outcome{{}}, frames: [][]byte{nil}}
}

func (l *logs) number(n node) uint16 {
	if id, ok := l.ids[n]; ok {
		return id
	}
	id := uint16(len(l.nodes))
	if id == 0 {
		panic("check: too many logs")
	}
	l.nodes, l.ids[n] = append(l.nodes, n), id
	l.outcomes = append(l.outcomes, l.outcomes[n.prev].then(n))
	l.frames = append(l.frames, binary.BigEndian.AppendUint16(nil, id))
	return id
}

// then returns the outcome after one more record.
func (f outcome) then(n node) outcome {
	f.received = slices.Clone(f.received)
	f.n++
	if f.terminal != 0 {
		f.wrong = "a record follows the terminal one"
	}
	switch n.kind {
	case runCreated:
		f.gen = n.gen
		for _, m := range n.carry {
			if m != 0 {
				f.received = append(f.received, m)
			}
		}
	case stepStarted:
		if f.done {
			f.wrong = "a completed step was started again"
		}
		f.started = true
	case stepCompleted:
		if f.done {
			f.wrong = "a step completed twice"
		}
		f.done = true
	case waitBegan:
		f.waits = true
	case timerFired:
		if f.fired {
			f.wrong = "a timer fired twice"
		}
		f.fired = true
	case itemReceived:
		if n.item == cancel {
			f.canceled = true
		} else {
			f.received = append(f.received, n.item)
		}
	case runContinued, runCompleted, runCanceled:
		f.terminal = n.kind
	}
	return f
}

// cid returns the commit id of the last record of a log. Like random ids, the ids of two logs are
// equal only if the logs are equal.
func cid(log uint16) (id event.CommitID) {
	binary.BigEndian.PutUint16(id[:], log)
	return id
}

func logOf(id event.CommitID) uint16 { return binary.BigEndian.Uint16(id[:]) }
