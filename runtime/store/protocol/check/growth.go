package check

// This file models a protocol that is not built yet: the number of partitions of a store grows
// while processes use it. The section Growth of docs/internals/design.md describes the protocol.
//
// Generation g of the store is the number of partitions after g growths. In the model, the home of
// the only workflow ID is partition g in generation g, so each growth moves the home. A process
// knows the generations up to one of them, and may be behind. A partition has a seal, the highest
// generation that a process has declared to it.

const (
	generations = 3
	growStarts  = 3
	growRuns    = 2
	growWorkers = 2
)

// growRunOf contains the run that each start creates. The first and the last start carry out the
// same record of an outbox, as two relays do after a crash or a pause.
var growRunOf = [growStarts]uint8{0, 1, 0}

// States of a run in a partition.
const (
	runMissing uint8 = iota
	runActive
	runEnded
)

type growPartition struct {
	seal, replicated uint8 // a failover sets the seal to replicated
	runs             [growRuns]uint8
	tick             bool // the run of the tick is here
	permits          uint8
}

// A growStart is a process that starts a run with the workflow ID.
type growStart struct {
	knows, at uint8 // at is the generation whose home it visits next
	waits     bool  // it waits until the seal of the home is replicated, and then visits it again
	done      bool
	late      bool // a copy of a request is in flight, with the following values
	lateAt    uint8
	lateKnows uint8
}

// A growReader looks up the workflow ID or a run of the first start.
type growReader struct {
	knows, at uint8
	begun     bool
	done      bool
	gap       bool // what it looks for was missing at some time since it has begun; ghost variable
}

type growing struct {
	table   uint8 // newest generation in the mark of partition 0
	parts   [generations]growPartition
	starts  [growStarts]growStart
	reader  growReader
	workers [growWorkers]growWorker
	sent    bool            // the schedule has recorded that its tick was sent
	created [growRuns]uint8 // ghost variable
	missed  bool            // a lookup missed what was there all the time; ghost variable

	lost, late, crash, failover, forget uint8 // how often each fault may still happen
}

// A growWorker executes runs in the partitions of the generations that it knows.
type growWorker struct {
	knows uint8
	holds uint8 // 1 + the partition from which it holds a permit of the limit
	held  bool  // it has held the permit once
}

// A growConfig is a configuration of the model of growth.
type growConfig struct {
	name                                string
	starts, workers                     int  // at most growStarts and growWorkers
	reuse                               bool // a start may follow a run that has ended
	reader, byRun                       bool // the reader looks up a run and not the workflow ID
	names                               bool // workers use a limit, and a schedule has a tick
	lost, late, crash, failover, forget uint8
	short                               int
}

// A growBug is a mistake in the protocol.
type growBug struct {
	newestOnly   bool // a start visits only the newest home
	noSeal       bool // a visit of an earlier home leaves no seal
	ignoresSeal  bool // a home accepts a start that declares an earlier generation
	noWait       bool // a start does not wait until its seal is replicated
	noRevisit    bool // a start does not visit a home again after its seal was replicated
	onlyActive   bool // a home that has only ended runs of the ID is treated as empty
	readsNewest  bool // a reader visits only the newest home
	readsStale   bool // a reader ignores the seal
	runStays     bool // a reader of a run visits only the partition of the recorded generation
	limitMoves   bool // the home of a limit depends on the generation that a worker knows
	tickMoves    bool // the partition of a tick depends on the generation that a worker knows
	workersStale bool // workers never learn a generation
	newID        bool // a start that learns a generation takes a new run ID for the same record
}

type growth struct {
	growConfig
	bug growBug
}

func (c growConfig) model(b growBug) model[growing] {
	m := &growth{c, b}
	s := growing{lost: c.lost, late: c.late, crash: c.crash, failover: c.failover, forget: c.forget}
	for i := range s.starts {
		s.starts[i].done = i >= c.starts
	}
	s.reader.done, s.sent = !c.reader, !c.names
	for i := range s.workers {
		s.workers[i].held = !c.names || i >= c.workers
	}
	return model[growing]{init: s, next: m.next, check: m.check, goal: m.done}
}

func (m *growth) next(s growing, e emit[growing]) {
	try := func(l label, fault bool, f func(n *growing)) {
		n := s
		f(&n)
		m.observe(&n)
		e(l, fault, n, "")
	}
	if s.table < generations-1 {
		try(say("the store grows"), false, func(n *growing) { n.table++ })
	}
	for i := range m.starts {
		m.start(s, i, try)
	}
	m.read(s, try)
	for i := range m.workers {
		m.work(s, i, try)
	}
	for g := range s.parts {
		m.keep(s, g, try)
	}
	if s.failover > 0 && s.table > 0 {
		try(say("partition 0 forgets the last growth"), true, func(n *growing) { n.failover--; n.table-- })
	}
}

// start tries the steps of a start.
func (m *growth) start(s growing, i int, try func(label, bool, func(*growing))) {
	x, k := s.starts[i], uint8(i)
	if x.late {
		try(say("a late request of start %d is executed in generation %d", k, x.lateAt), true, func(n *growing) {
			n.starts[i].late = false
			m.visit(n, i, x.lateAt, x.lateKnows)
		})
	}
	if x.done {
		return
	}
	if x.waits {
		if home := s.parts[x.at]; home.replicated >= x.knows || home.seal < x.knows {
			try(say("start %d waits no longer for its seal", k), false, func(n *growing) {
				n.starts[i].waits = false
				if m.bug.noRevisit && home.replicated >= x.knows {
					n.starts[i].at++
				}
			})
		}
		return
	}
	try(say("start %d visits the home of generation %d, knowing %d", k, x.at, x.knows), false, func(n *growing) { m.answer(n, i, m.visit(n, i, x.at, x.knows)) })
	if x.knows < s.table {
		try(say("start %d reads the mark", k), false, func(n *growing) { n.starts[i].learn(m, n.table) })
	}
	if s.crash > 0 {
		try(say("start %d begins again", k), true, func(n *growing) { n.crash--; n.starts[i].knows = 0; n.starts[i].learn(m, n.table) })
	}
	if s.lost > 0 {
		try(say("start %d visits the home of generation %d, and the answer is lost", k, x.at), true, func(n *growing) { n.lost--; m.visit(n, i, x.at, x.knows) })
	}
	if s.late > 0 && !x.late {
		try(say("a request of start %d is late", k), true, func(n *growing) {
			n.late--
			n.starts[i].late, n.starts[i].lateAt, n.starts[i].lateKnows = true, x.at, x.knows
		})
	}
}

func (x *growStart) learn(m *growth, generation uint8) {
	x.knows, x.at, x.waits = generation, 0, false
	if m.bug.newestOnly {
		x.at = generation
	}
}

// Answers of a home to a start.
const (
	visitSettled uint8 = iota // the run exists, is created now, or is refused
	visitAbsent
	visitUnsure // absent, but the seal may be lost
	visitStale
)

// answer changes a start by the answer of a home.
func (m *growth) answer(n *growing, i int, answer uint8) {
	x := &n.starts[i]
	switch answer {
	case visitSettled:
		x.done = true
	case visitAbsent:
		x.at++
	case visitUnsure:
		x.waits = true
	case visitStale:
		x.learn(m, n.parts[x.at].seal)
	}
}

// visit executes the script of a start at the home of generation at. It is one action.
func (m *growth) visit(n *growing, i int, at, knows uint8) uint8 {
	home, r := &n.parts[at], growRunOf[i]
	if home.runs[r] != runMissing && (!m.bug.newID || knows == 0) {
		return visitSettled
	}
	if home.seal > knows && !m.bug.ignoresSeal {
		return visitStale
	}
	if !m.bug.noSeal {
		home.seal = max(home.seal, knows)
	}
	other := home.runs[1-r]
	switch {
	case other == runActive, other == runEnded && !m.reuse, home.runs[r] == runActive:
		return visitSettled // refused
	case at < knows && (other == runMissing || m.bug.onlyActive):
		if home.replicated < knows && !m.bug.noWait && !m.bug.noSeal {
			return visitUnsure
		}
		return visitAbsent
	}
	home.runs[r] = runActive
	n.created[r]++
	return visitSettled
}

// read tries the steps of the reader.
func (m *growth) read(s growing, try func(label, bool, func(*growing))) {
	x := s.reader
	switch {
	case x.done:
		return
	case !x.begun:
		if m.there(&s) {
			try(say("the reader begins"), false, func(n *growing) { n.reader.begun = true })
		} else if s.startsDone() {
			try(say("there is nothing to read"), false, func(n *growing) { n.reader.done = true })
		}
		return
	}
	if x.knows < s.table {
		try(say("the reader reads the mark"), false, func(n *growing) {
			n.reader.knows, n.reader.at = n.table, 0
			if m.bug.readsNewest {
				n.reader.at = n.table
			}
		})
	}
	home := s.parts[x.at]
	try(say("the reader visits the home of generation %d, knowing %d", x.at, x.knows), false, func(n *growing) {
		switch {
		case m.holds(home):
			n.reader.done = true
		case home.seal > x.knows && !m.bug.readsStale:
			n.reader.knows, n.reader.at = home.seal, 0
		case x.at < x.knows && !m.bug.runStays:
			n.reader.at++
		default:
			n.reader.done = true
			if !x.gap {
				n.missed = true
			}
		}
	})
}

// holds reports whether a partition has what the reader looks for: a run that was started, or any
// active run.
func (m *growth) holds(p growPartition) bool {
	if m.byRun {
		return p.runs[0] != runMissing
	}
	return p.runs[0] == runActive || p.runs[1] == runActive
}

func (m *growth) there(s *growing) bool {
	for _, p := range s.parts {
		if m.holds(p) {
			return true
		}
	}
	return false
}

// observe updates the ghost variables of the reader.
func (m *growth) observe(n *growing) {
	if n.reader.begun && !n.reader.done && !m.there(n) {
		n.reader.gap = true
	}
}

// work tries the steps of a worker.
func (m *growth) work(s growing, i int, try func(label, bool, func(*growing))) {
	x, k := s.workers[i], uint8(i)
	learned := max(x.knows, s.table)
	for g := range x.knows + 1 {
		learned = max(learned, s.parts[g].seal)
		for r, state := range s.parts[g].runs {
			if state == runActive {
				try(say("worker %d ends run %d in partition %d", k, uint8(r), g), false, func(n *growing) { n.parts[g].runs[r] = runEnded })
			}
		}
	}
	if learned > x.knows && !m.bug.workersStale {
		try(say("worker %d learns generation %d", k, learned), false, func(n *growing) { n.workers[i].knows = learned })
	}
	home := uint8(0)
	if m.bug.limitMoves {
		home = x.knows
	}
	switch {
	case x.holds > 0:
		try(say("worker %d gives back its permit", k), false, func(n *growing) { n.parts[x.holds-1].permits--; n.workers[i].holds = 0 })
	case !x.held && s.parts[home].permits == 0:
		try(say("worker %d takes a permit from partition %d", k, home), false, func(n *growing) {
			n.parts[home].permits++
			n.workers[i].holds, n.workers[i].held = home+1, true
		})
	}
	if !s.sent {
		home := uint8(0)
		if m.bug.tickMoves {
			home = x.knows
		}
		try(say("worker %d starts the run of the tick in partition %d", k, home), false, func(n *growing) { n.parts[home].tick, n.sent = true, true })
	} else if s.forget > 0 {
		try(say("the schedule forgets its tick"), true, func(n *growing) { n.forget--; n.sent = false })
	}
}

// keep tries the steps of a partition.
func (m *growth) keep(s growing, g int, try func(label, bool, func(*growing))) {
	p, k := s.parts[g], uint8(g)
	if p.seal > p.replicated {
		try(say("the seal of partition %d is replicated", k), false, func(n *growing) { n.parts[g].replicated = p.seal })
		if s.failover > 0 {
			try(say("partition %d has a failover", k), true, func(n *growing) { n.failover--; n.parts[g].seal = p.replicated })
		}
	}
	for r, state := range p.runs {
		if state == runEnded && s.settled(uint8(r)) {
			try(say("run %d is purged from partition %d", uint8(r), k), true, func(n *growing) { n.parts[g].runs[r] = runMissing })
		}
	}
}

// settled reports whether no start of the run can be sent again, which a purge waits for.
func (s *growing) settled(r uint8) bool {
	for i, x := range s.starts {
		if growRunOf[i] == r && (!x.done || x.late) {
			return false
		}
	}
	return true
}

func (s *growing) startsDone() bool {
	for _, x := range s.starts {
		if !x.done {
			return false
		}
	}
	return true
}

func (m *growth) check(s growing) string {
	active, homes, permits, ticks := 0, 0, 0, 0
	for _, p := range s.parts {
		kept := 0
		for _, state := range p.runs {
			if state == runActive {
				active++
			}
			if state != runMissing {
				kept = 1
			}
		}
		homes += kept
		permits += int(p.permits)
		if p.tick {
			ticks++
		}
	}
	switch {
	case active > 1:
		return "C1: two runs of a workflow ID are active"
	case s.created[0] > 1 || s.created[1] > 1:
		return "C1: a run is created twice"
	case homes > 1:
		return "C1: two partitions have runs of a workflow ID"
	case permits > 1:
		return "L2: more permits are held than the limit has"
	case ticks > 1:
		return "L13: a tick has two runs"
	case s.missed:
		return "M1: a lookup misses what was there all the time"
	}
	return ""
}

// done reports whether all processes are done and all runs have ended.
func (m *growth) done(s growing) bool {
	if !s.startsDone() || !s.reader.done || !s.sent {
		return false
	}
	for _, p := range s.parts {
		if p.runs[0] == runActive || p.runs[1] == runActive {
			return false
		}
	}
	for _, w := range s.workers {
		if !w.held || w.holds > 0 {
			return false
		}
	}
	return true
}
