package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// mark is what is kept of an event: 24 bytes.
type mark struct {
	at      int64  // Unix time in milliseconds
	ref     uint32 // as of the event
	key     uint32 // index of a text
	name    uint32 // index of a text
	kind    uint16 // index of a type
	attempt uint8  // those from 255 on are 255
	flags   uint8
}

// The flags of a mark.
const (
	creates uint8 = 1 << iota
	ends
	failed
	carries // a payload
)

// skeleton is what is kept of a log between requests: enough to draw it, not to read it.
type skeleton struct {
	marks []mark
	kinds []string
	texts []string
	index map[string]uint32 // of texts, kinds among them
	notes map[uint32]note   // by the number of the event that has created an operation
	bytes int64

	machine *machine // nil: the run is none
}

// note is what is known last of an operation.
type note struct {
	due  int64  // Unix time in milliseconds; 0: none
	next string // the run that it is
	text string // why it has failed
}

// maxNote bounds a text of a note, in characters.
const maxNote = 100

func newSkeleton() *skeleton {
	return &skeleton{texts: []string{""}, index: map[string]uint32{"": 0}, notes: map[uint32]note{}}
}

// next returns the number of the event that the skeleton does not have yet.
func (s *skeleton) next() uint64 { return uint64(len(s.marks)) + 1 }

// extend reads the log up to an event. What was read before an error stays.
func (s *skeleton) extend(ctx context.Context, svc admin.Service, run string, last uint64) error {
	if s.next() > last {
		return nil
	}
	s.marks = slices.Grow(s.marks, int(min(last-s.next()+1, 1<<20)))
	for e, err := range svc.Follow(ctx, run, admin.EventFilter{From: s.next()}) {
		if err != nil {
			return err
		}
		s.add(&e)
		if e.Seq >= last {
			break
		}
	}
	return ctx.Err()
}

func (s *skeleton) text(t string) uint32 {
	i, ok := s.index[t]
	if !ok {
		i = uint32(len(s.texts))
		t = strings.Clone(t)
		s.texts = append(s.texts, t)
		s.index[t] = i
		s.bytes += int64(2*len(t)) + 64
	}
	return i
}

func (s *skeleton) kind(t string) uint16 {
	i := slices.Index(s.kinds, t)
	if i < 0 {
		i = len(s.kinds)
		s.kinds = append(s.kinds, strings.Clone(t))
	}
	return uint16(i)
}

func (s *skeleton) add(e *admin.Event) {
	m := mark{at: e.Time.UnixMilli(), ref: uint32(e.Ref), key: s.text(e.Key), name: s.text(e.Name), kind: s.kind(e.Type), attempt: uint8(min(e.Attempt, 255))}
	m.set(creates, e.Creates)
	m.set(ends, e.Ends)
	m.set(failed, e.Failure != nil)
	m.set(carries, len(e.Payload) > 0)
	s.marks = append(s.marks, m)
	s.bytes += 24
	s.follow(e)
	if e.Ref == 0 {
		return
	}
	n, known := s.notes[m.ref]
	before := len(n.text) + len(n.next)
	n.due = 0
	if !e.Due.IsZero() {
		n.due = e.Due.UnixMilli()
	}
	n.next = cmp.Or(e.Next, n.next)
	if e.Failure != nil {
		n.text = cut(maxNote, e.Failure.Message)
	}
	if !known && n == (note{}) {
		return
	}
	if !known {
		s.bytes += 64
	}
	s.bytes += int64(len(n.text) + len(n.next) - before)
	s.notes[m.ref] = n
}

func (m *mark) set(flag uint8, on bool) {
	if on {
		m.flags |= flag
	}
}

// moment returns when an event was.
func (m *mark) moment() time.Time { return time.UnixMilli(m.at).UTC() }

// operation is something that a run has begun.
type operation struct {
	seq      uint64
	kind     string // step, wait, child, hook, send, ask
	name     string
	key      string
	begin    int64 // Unix time in milliseconds
	end      int64 // 0: it goes on
	state    string
	attempts []attempt
	note     note
}

// attempt is one try of a step.
type attempt struct {
	begin, end int64 // end 0: it is under way
	state      string
}

// The states of operations and of attempts.
const (
	stateOpen      = "open"
	stateDone      = "done"
	stateFailed    = "failed"
	stateCancelled = "cancelled"
	stateRetrying  = "retrying"
	stateBroken    = "interrupted"
)

// outcomes has the states in which events leave what they are about; what is not there goes on.
var outcomes = map[string]string{
	"step_completed": stateDone, "step_failed": stateFailed, "wait_completed": stateDone, "hook_disposed": stateDone, "hook_conflict": stateFailed,
	"send_completed": stateDone, "send_failed": stateFailed, "child_completed": stateDone, "child_failed": stateFailed, "child_cancelled": stateCancelled,
	"ask_answered": stateDone, "ask_refused": stateFailed,
}

// operations returns what the run has begun, in the order of the log.
func (s *skeleton) operations() []operation {
	all := make([]operation, 0, len(s.marks)/3)
	at := make(map[uint32]int, len(s.marks)/3)
	for i := range s.marks {
		m := &s.marks[i]
		kind := s.kinds[m.kind]
		if m.flags&creates != 0 && kind != "run_created" {
			entity, _, _ := strings.Cut(kind, "_")
			if kind == "message_sent" {
				entity = "send"
			}
			at[m.ref] = len(all)
			all = append(all, operation{
				seq: uint64(i) + 1, kind: entity, name: s.texts[m.name], key: s.texts[m.key], begin: m.at, state: stateOpen, note: s.notes[m.ref],
			})
			continue
		}
		if o, ok := at[m.ref]; ok && m.ref != 0 {
			all[o].apply(kind, m)
		}
	}
	return all
}

// apply follows what an event says of an operation.
func (o *operation) apply(kind string, m *mark) {
	last := len(o.attempts) - 1
	leave := func(state string) {
		if last >= 0 && o.attempts[last].end == 0 {
			o.attempts[last].end, o.attempts[last].state = max(m.at, 1), state
		}
	}
	switch kind {
	case "step_started":
		leave(stateBroken)
		o.attempts = append(o.attempts, attempt{begin: m.at, state: stateOpen})
		o.state = stateOpen
		return
	case "step_retrying":
		leave(stateFailed)
		o.state = stateRetrying
		return
	}
	if state, ok := outcomes[kind]; ok {
		leave(state)
		o.state, o.end = state, max(m.at, 1)
	}
}
