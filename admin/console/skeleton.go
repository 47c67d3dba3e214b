package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/recent"
)

// skeleton is the cached part of a log. It contains the data to draw the log, but no payloads. New
// events extend it, so that a request reads only the new events.
type skeleton struct {
	events uint64 // number of events
	kinds  map[string]*kindOf
	texts  []string
	index  map[string]uint32 // indexes of texts
	ops    []*operation      // operations of the run in the order of the log
	lanes  lanes
	bytes  int64

	work []stretch // stretches of time in which the run worked
	busy int       // number of operations in progress

	machine *machine // nil if the run is not a state machine
	graph   admin.GraphLog
}

// kindOf contains the events of one type.
type kindOf struct {
	all  []named
	last map[uint32]uint32 // number of the last event with each name
}

// named is the cached part of an event. It has 8 bytes.
type named struct {
	seq  uint32
	name uint32 // index of the name in the texts
}

// note contains the due time, the run and the failure of an operation, from its latest events.
type note struct {
	due  int64  // due time as Unix time in milliseconds; 0 if there is none
	next string // the run that the operation started or addressed
	text string // text of the failure
}

// maxNote is the maximum length of the text of a note in characters.
const maxNote = 100

// Approximate sizes of an operation, a lane, an attempt, the overhead of a text, and an event, in
// bytes.
const (
	operationBytes = 448
	laneBytes      = 288
	attemptBytes   = 32
	textBytes      = 64
	eventBytes     = 8
)

func newSkeleton() *skeleton {
	return &skeleton{kinds: map[string]*kindOf{}, texts: []string{""}, index: map[string]uint32{"": 0}, lanes: newLanes()}
}

// extend reads the log up to the event with the number last. If it returns an error, it keeps the
// events that it read before.
func (s *skeleton) extend(ctx context.Context, svc Service, run string, last uint64) error {
	if s.events >= last {
		return nil
	}
	for e, err := range svc.Follow(ctx, run, admin.EventFilter{From: s.events + 1}) {
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
		s.bytes += int64(len(t)) + textBytes
	}
	return i
}

func (s *skeleton) add(e *admin.Event) {
	s.events++
	s.work = worked(s.work, e.Time.UnixMilli(), s.busy > 0)
	name := s.text(e.Name)
	k := s.kinds[e.Type]
	if k == nil {
		k = &kindOf{last: map[uint32]uint32{}}
		s.kinds[strings.Clone(e.Type)] = k
	}
	k.all = append(k.all, named{uint32(s.events), name})
	k.last[name] = uint32(s.events)
	s.bytes += eventBytes
	s.follow(e)
	held := s.graph.Size()
	s.graph.Add(e)
	s.bytes += s.graph.Size() - held
	var o *operation
	switch {
	case e.Creates && e.Type != "run_created":
		o = s.begin(e, s.texts[name])
	case e.Ref != 0:
		o = s.operation(e.Ref)
	}
	if o == nil {
		return
	}
	before := o.state
	held = o.size()
	if !e.Creates && o.works() {
		s.busy--
	}
	o.apply(e)
	if o.works() {
		s.busy++
	}
	o.learn(e)
	s.bytes += o.size() - held
	s.lanes.changed(o, before)
}

// begin adds the operation that begins with an event.
func (s *skeleton) begin(e *admin.Event, name string) *operation {
	kind, _, _ := strings.Cut(e.Type, "_")
	if e.Type == "message_sent" {
		kind = "send"
	}
	if step, is := admin.StepOf(name); is && kind == "child" { // another run executes the step
		kind, name = "step", s.texts[s.text(step)]
	}
	kind = s.texts[s.text(kind)]
	o := &operation{apart: e.Type == "child_created", seq: s.events, kind: kind, name: name, key: strings.Clone(e.Key), begin: e.Time.UnixMilli(), state: stateOpen}
	s.ops = append(s.ops, o)
	known := len(s.lanes.byAt)
	s.lanes.plant(o)
	s.bytes += operationBytes + int64(len(o.key)) + int64(len(s.lanes.byAt)-known)*laneBytes
	return o
}

// operation returns the operation whose first event has the given number. It returns nil if there
// is none.
func (s *skeleton) operation(seq uint64) *operation {
	i, ok := slices.BinarySearchFunc(s.ops, seq, func(o *operation, seq uint64) int { return cmp.Compare(o.seq, seq) })
	if !ok {
		return nil
	}
	return s.ops[i]
}

// at returns the numbers of the latest events of the given types, the last first. The parameter
// most is the maximum length of the result. more reports whether there are further events.
func (s *skeleton) at(most int, kinds ...string) (all []uint64, more bool) {
	for _, kind := range kinds {
		k := s.kinds[kind]
		if k == nil {
			continue
		}
		for _, e := range k.all[max(len(k.all)-most-1, 0):] {
			all = append(all, uint64(e.seq))
		}
	}
	slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
	if len(all) > most {
		return all[:most], true
	}
	return all, false
}

// newest returns the names with the latest events of a type, in alphabetical order, and the number
// of the last event of each name. The parameter most is the maximum number of names.
func (s *skeleton) newest(most int, kind string) (names []string, all []uint64) {
	k := s.kinds[kind]
	if k == nil {
		return nil, nil
	}
	var found []named
	for name, seq := range k.last {
		found = append(found, named{seq, name})
	}
	slices.SortFunc(found, func(a, b named) int { return cmp.Compare(b.seq, a.seq) })
	found = found[:min(len(found), most)]
	slices.SortFunc(found, func(a, b named) int { return strings.Compare(s.texts[a.name], s.texts[b.name]) })
	for _, f := range found {
		names, all = append(names, s.texts[f.name]), append(all, uint64(f.seq))
	}
	return names, all
}

// named returns the names of the latest events of some types.
func (s *skeleton) named(most int, kinds ...string) map[string]bool {
	names := map[string]bool{}
	for _, kind := range kinds {
		all, _ := s.newest(most, kind)
		for _, name := range all {
			if name != "" {
				names[name] = true
			}
		}
	}
	return names
}

// operation is the cached state of an operation of a run.
type operation struct {
	seq      uint64
	kind     string // step, wait, child, hook, send or ask
	name     string
	key      string
	begin    int64 // Unix time in milliseconds
	end      int64 // Unix time in milliseconds; 0 if the operation has not ended
	state    string
	apart    bool // whether another run executes the operation
	attempts []attempt
	note     note
	lane     *node // lane in which the operation is drawn
}

// works reports whether an attempt, or the run that executes the operation, is in progress.
func (o *operation) works() bool {
	if o.end != 0 || o.apart {
		return o.end == 0
	}
	return len(o.attempts) > 0 && o.attempts[len(o.attempts)-1].end == 0
}

// size returns the approximate size in bytes of the parts that may change.
func (o *operation) size() int64 {
	return int64(cap(o.attempts))*attemptBytes + int64(len(o.note.text)+len(o.note.next))
}

// attempt is the cached state of an attempt of a step.
type attempt struct {
	begin, end int64 // end is 0 while the attempt is in progress
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

// outcomes maps the types of events that end operations to the resulting states.
var outcomes = map[string]string{
	"step_completed": stateDone, "step_failed": stateFailed, "wait_completed": stateDone, "hook_disposed": stateDone, "hook_conflict": stateFailed,
	"send_completed": stateDone, "send_failed": stateFailed, "child_completed": stateDone, "child_failed": stateFailed, "child_cancelled": stateCancelled,
	"ask_answered": stateDone, "ask_refused": stateFailed,
}

// apply updates the operation with an event.
func (o *operation) apply(e *admin.Event) {
	last, at := len(o.attempts)-1, e.Time.UnixMilli()
	leave := func(state string) {
		if last >= 0 && o.attempts[last].end == 0 {
			o.attempts[last].end, o.attempts[last].state = max(at, 1), state
		}
	}
	switch e.Type {
	case "step_started":
		leave(stateBroken)
		o.attempts = append(o.attempts, attempt{begin: at, state: stateOpen})
		o.state = stateOpen
		return
	case "step_retrying":
		leave(stateFailed)
		o.state = stateRetrying
		return
	}
	if state, ok := outcomes[e.Type]; ok && !e.Creates {
		leave(state)
		o.state, o.end = state, max(at, 1)
	}
}

// learn stores the data of an event in the note of the operation.
func (o *operation) learn(e *admin.Event) {
	o.note.due = 0
	if !e.Due.IsZero() {
		o.note.due = e.Due.UnixMilli()
	}
	if e.Next != "" {
		o.note.next = strings.Clone(e.Next)
	}
	if e.Failure != nil {
		o.note.text = cut(maxNote, e.Failure.Message)
	}
}

// logs caches the skeletons of recently read logs. Each principal has a cache of its own, so that a
// skeleton contains only data that the principal may read.
type logs struct {
	kept *recent.Cache[logKey, keptLog]
}

type logKey struct {
	run string
	who admin.Principal
}

type keptLog struct {
	mu       sync.Mutex // held by the request that reads; other requests wait for the result
	skeleton *skeleton
}

func newLogs(most int64) *logs { return &logs{recent.New[logKey, keptLog](most)} }

// with calls use with the skeleton of a log up to the event with the number last. If the rest of
// the log cannot be read, err is the reason.
func (l *logs) with(ctx context.Context, q *request, run string, last uint64, use func(s *skeleton, err error)) {
	key := logKey{run, q.who}
	one := l.kept.Get(key, func() *keptLog { return &keptLog{skeleton: newSkeleton()} })
	one.mu.Lock()
	err := one.skeleton.extend(ctx, q.service, run, last)
	use(one.skeleton, err)
	bytes := one.skeleton.bytes
	one.mu.Unlock()
	l.kept.Measure(key, one, bytes)
}
