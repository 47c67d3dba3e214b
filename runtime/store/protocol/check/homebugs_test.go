package check

import (
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// homeLiar is a Tx with limits and one wrong method.
type homeLiar struct {
	liar
	limits limitLiar
}

// Limits returns a LimitTx with the wrong methods of l.limits.
func (l *homeLiar) Limits() protocol.LimitTx[uint8] {
	lies := l.limits
	lies.limitTx = limitTx{l.tx}
	return &lies
}

func (l homeLiar) bug() homeBug {
	return homeBug{tx: func(t *tx) protocol.Tx[uint8, uint8] {
		l.tx = t
		return &l
	}}
}

// limitLiar is a LimitTx with one wrong method.
type limitLiar struct {
	limitTx
	uses     func(t *tx, r uint8, uses []store.Use) []store.Use
	limit    func(t *tx, id store.LimitID, l protocol.Limit) protocol.Limit
	save     func(t *tx, before limitState, l protocol.Limit) protocol.Limit
	line     func(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue
	noClosed func(t *tx) bool // ClosedQueues returns no queues
	kept     func(t *tx, l protocol.LimiterQueue) bool
	nested   bool // NestedClosed returns no queues
	passes   bool // KeptQueues returns no queues
	one      bool // ClosedQueues returns only the first queue
}

func (l *limitLiar) Uses(r uint8) ([]store.Use, error) {
	uses, err := l.limitTx.Uses(r)
	if l.uses != nil {
		uses = l.uses(l.tx, r, uses)
	}
	return uses, err
}

func (l *limitLiar) Limit(id store.LimitID) (protocol.Limit, error) {
	limit, err := l.limitTx.Limit(id)
	if l.limit != nil {
		limit = l.limit(l.tx, id, limit)
	}
	return limit, err
}

func (l *limitLiar) SaveLimit(id store.LimitID, limit protocol.Limit) error {
	if l.save != nil {
		limit = l.save(l.tx, l.x.limits[kindOf(id)], limit)
	}
	return l.limitTx.SaveLimit(id, limit)
}

func (l *limitLiar) SaveQueue(line protocol.LimiterQueue) error {
	if l.line != nil {
		line = l.line(l.tx, l.number(line.ID[0]-'0'), line)
	}
	return l.limitTx.SaveQueue(line)
}

func (l *limitLiar) ClosedQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	if l.noClosed != nil && l.noClosed(l.tx) {
		return nil, nil
	}
	if l.one {
		limit = 1
	}
	return l.limitTx.ClosedQueues(id, limit)
}

func (l *limitLiar) FirstKept(id store.LimitID) (protocol.LimiterQueue, error) {
	lines, err := l.LimiterQueues(id)
	for _, line := range lines {
		if line.Mode != protocol.QueueOpen && l.counts(line, id) && (l.kept == nil || l.kept(l.tx, line)) {
			return line, err
		}
	}
	return protocol.LimiterQueue{}, err
}

func (l *limitLiar) NestedClosed(id store.LimitID) ([]protocol.LimiterQueue, error) {
	if l.nested {
		return nil, nil
	}
	return l.limitTx.NestedClosed(id)
}

func (l *limitLiar) KeptQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	if l.passes {
		return nil, nil
	}
	return l.limitTx.KeptQueues(id, limit)
}

func limitBug(l limitLiar) homeBug { return homeLiar{limits: l}.bug() }

func stateBug(l liar) homeBug { return homeLiar{liar: l}.bug() }

// while returns a condition that is true during the operations these.
func while(these ...operation) func(*tx) bool {
	return func(t *tx) bool {
		return slices.Contains(these, t.doing)
	}
}

const misplaced = "a shut line counts where it must not, or not where it must [L5]"

const stuck = "stuck: there is no way to the end without a fault"

// homeSeeded are the bugs of the model of limits. The name of each begins with the rule that it
// breaks.
var homeSeeded = []struct {
	name  string
	in    homeConfig
	bug   homeBug
	finds string
}{
	{"L1 permits are given back twice", homeLost, limitBug(limitLiar{save: givenBackTwice}),
		"what is counted is not what the runs say [L1]"},
	{"L1 a give-back is not counted", homeLost, limitBug(limitLiar{save: notGivenBack}),
		"what is counted is not what the runs say [L1]"},
	{"L1 who waits is counted once more", homeWakes, limitBug(limitLiar{save: waitsTwice}),
		"what is counted is not what the runs say [L1]"},
	{"L1 a run hands on permits of other limits", homeContinuesOther, limitBug(limitLiar{uses: sameUses}),
		"what is counted is not what the runs say [L1]"},
	{"L2 a recovered run keeps its permits", homePairs, stateBug(liar{save: keptOnRecovery}),
		"a run has permits, and nobody owns it [L2]"},
	{"L2 a parked run keeps its permits", homeShrinks, stateBug(liar{save: keptWhenParked}),
		"a run has permits, and nobody owns it [L2]"},
	{"L2 a run is granted without its permits", homePairs, stateBug(liar{save: forgottenOnGrant}),
		"a run is owned without its permits [L2]"},
	{"L2 a late end gives back", homeLate, stateBug(liar{state: anyFence}),
		"who has lost a run has given back its permits [L2]"},
	{"L2 one limit of two is asked", homePairs, limitBug(limitLiar{limit: secondHasFree}),
		"a limit is above its capacity after a grant [L4]"},
	{"L2 what the owner knows nothing of stays", homeLost, homeBug{forgets: true}, stuck},
	{"L3 permits expire", homeLost, homeBug{tick: expires}, "time took a permit from a run [L3]"},
	{"L4 a grant sees the counts of before", homeLost, limitBug(limitLiar{limit: oneMoreFits}),
		"a limit is above its capacity after a grant [L4]"},
	{"L4 a start with an owner takes what is held", homeOwners, limitBug(limitLiar{limit: twoMoreFitAtStart}),
		"a limit is above its capacity after a grant [L4]"},
	{"L4 giving back asks for the capacity", homeShrinks, limitBug(limitLiar{save: notAboveCapacity}),
		"what is counted is not what the runs say [L1]"},
	{"L4 a paused limit grants", homeSets, limitBug(limitLiar{limit: neverPaused}),
		"a limit is above its capacity after a grant [L4]"},
	{"L5 a light run passes a heavy one", homeHeavy, limitBug(limitLiar{kept: func(_ *tx, l protocol.LimiterQueue) bool { return l.Mode != protocol.QueueClosed }}),
		"a run that was asked for in vain was passed [L5]"},
	{"L5 a nested run is kept back by who waits for what is held above it", homeNestedLater, limitBug(limitLiar{uses: notNested}), stuck},
	{"L5 a nested run passes who waits for nothing else", homeNestedTurn, limitBug(limitLiar{passes: true}),
		"a called line has lost its turn [L7]"},
	{"L5 who comes back opens the line of those who wait", homeBack, limitBug(limitLiar{line: openedByReturn}),
		"a run that was asked for in vain was passed [L5]"},
	{"L5 a line counts everywhere", homeOrderPause, limitBug(limitLiar{line: standsEverywhere}), misplaced},
	{"L5 a line counts nowhere", homePairs, limitBug(limitLiar{line: standsNowhere}), misplaced},
	{"L5 a line counts where its room is gone", homeOrderLater, limitBug(limitLiar{line: standsOn}), misplaced},
	{"L5 a line that has room comes no further", homeOrderLater, limitBug(limitLiar{line: standsStill}), misplaced},
	{"L5 the first closed line alone is looked at", homeThreeAll, limitBug(limitLiar{one: true}), misplaced},
	{"L5 a pause of a later limit is ignored", homeOrderLater, limitBug(limitLiar{limit: laterNotPaused}), misplaced},
	{"L6 a called line survives a pause", homeOrderPause, limitBug(limitLiar{line: calledThroughPause}),
		"a line that uses a paused limit is called [L6]"},
	{"L6 an end calls nobody", homeWakes, limitBug(limitLiar{noClosed: while(committing)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L6 a recovery calls nobody", homePairs, limitBug(limitLiar{noClosed: while(recovering)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L6 who leaves its line calls nobody", homeWakes, limitBug(limitLiar{noClosed: while(delivering)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L6 a growing limit calls nobody", homeSets, limitBug(limitLiar{noClosed: while(configuring), line: notCalledBySet}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L6 a grant calls nobody", homeGrants, limitBug(limitLiar{noClosed: while(claiming)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L6 a call that is over calls nobody", homeGone, limitBug(limitLiar{noClosed: while(turning)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L7 a called line keeps no turn", homeClasses, limitBug(limitLiar{kept: func(_ *tx, l protocol.LimiterQueue) bool { return l.Mode != protocol.QueueAdmitted }}),
		"a called line has lost its turn [L7]"},
	{"L7 a start with an owner takes the turn of others", homeOwners, limitBug(limitLiar{limit: nobodyWaitsAtStart, save: countedAllTheSame}),
		"a called line has lost its turn [L7]"},
	{"L7 a call is never over", homeGone, limitBug(limitLiar{line: calledForEver}),
		"a call is over, and keeps its turn [L7]"},
	{"L7 a call has no end", homeGone, limitBug(limitLiar{line: untimed}), stuck},
	{"L8 a claim that leaves something sets no wake", homeWakes, homeBug{noWake: true},
		"a run may go, a worker sleeps, and nothing wakes it [L8]"},
	{"L8 a call wakes nobody", homeClasses, homeBug{after: untold},
		"a run may go, a worker sleeps, and nothing wakes it [L8]"},
	{"L9 a canceled run stays in its line", homeWakes, stateBug(liar{save: staysInQueue}),
		"a run has left its line, and is still there [L9]"},
	{"L9 a run is in line twice", homeLost, stateBug(liar{run: noneToCreate}),
		"a run waits, and is in line never or twice [L9]"},
	{"L9 a canceled run is not called off", homeWakes, stateBug(liar{save: notLeftQueue}),
		"a canceled run still waits [L9]"},
	{"L9 what is too heavy stays out", homeSets, limitBug(limitLiar{line: neverOpened}),
		"a run can never have its permits, and is left out by claims [L9]"},
	{"F2 a seizure keeps the fence", homeSeize, stateBug(liar{save: fenceOnSeizure}),
		"a run was taken from its owner under the same fence [F2]"},
	{"L2 a seized run gets permits", homeSeize, stateBug(liar{save: permitsOnSeizure}),
		"a run was seized, and has permits [L2]"},
	{"L2 a run keeps permits that it has not used", homeUnused, stateBug(liar{save: keptUnused}),
		"a run has parked without use, and has permits [L2]"},
	{"L6 a seizure calls nobody", homeSeizeWakes, limitBug(limitLiar{noClosed: while(seizing)}),
		"the turn of a line has come, and nobody calls it [L6]"},
	{"L9 a seized run loses its place", homeSeize, stateBug(liar{save: noPlace(seizing)}),
		"a seized run has lost its place [L9]"},
	{"L9 a run that has begun nothing loses its place", homeUnused, stateBug(liar{save: noPlace(committing)}),
		"a run that parks in its place has lost it [L9]"},
	{"a rate keeps what was not used", homeUnusedRate, limitBug(limitLiar{save: noRefund}), "a rate has kept what was not used [rate]"},
	{"the rate is not counted", homeRate, limitBug(limitLiar{save: noTAT}), "more begin than the rate allows [rate]"},
	{"the rate is given back", homeRate, limitBug(limitLiar{save: tatBack}), "more begin than the rate allows [rate]"},
	{"the rate is not asked", homeRatePair, limitBug(limitLiar{limit: noRate}), "more begin than the rate allows [rate]"},
	{"K3 the time of a line is not told", homeGoneWakes, homeBug{after: func(_ operation, c *protocol.Changes[uint8]) { c.Turns = nil }},
		"the time of a line comes, and nobody will look [K3]"},
	{"a line has no time", homeRate, limitBug(limitLiar{line: untimed}), "the turn of a line has come, and nobody calls it [L6]"},
}

func TestCheck_FindsEverySeededBugOfLimits(t *testing.T) {
	for _, b := range homeSeeded {
		t.Run(b.name, func(t *testing.T) { found(t, b.in.name, b.finds, explore(b.in.model(b.bug), seededMost)) })
	}
}

func givenBackTwice(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	if gone := int(before.held) - l.Held; gone > 0 {
		l.Held -= gone
	}
	return l
}

func notGivenBack(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	l.Held = max(l.Held, int(before.held))
	return l
}

func waitsTwice(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	if l.Waits > int(before.waits) {
		l.Waits++
	}
	return l
}

func sameUses(t *tx, r uint8, uses []store.Use) []store.Use {
	if t.doing == committing && r == 2 {
		return t.home.uses(1)
	}
	return uses
}

func notNested(_ *tx, _ uint8, uses []store.Use) []store.Use {
	for i := range uses {
		uses[i].Nested = false
	}
	return uses
}

func keptOnRecovery(t *tx, before run, x *run) {
	if t.doing == recovering && before.queueState == store.StateOwned {
		keeps(t, x)
	}
}

func keptWhenParked(t *tx, before run, x *run) {
	if before.queueState == store.StateOwned && x.queueState == store.StateParked {
		keeps(t, x)
	}
}

// keeps lets a run keep permits that it has given back.
func keeps(t *tx, x *run) {
	for i := range t.p.runs {
		if &t.p.runs[i] == x {
			if waits(t.home, t.p, t.x, uint8(i+1)) {
				t.x.leave(t.home, uint8(i+1))
			}
			t.x.flags[i].has = true
		}
	}
}

func forgottenOnGrant(t *tx, before run, x *run) {
	if before.queueState == store.StateOwned || x.queueState != store.StateOwned {
		return
	}
	for i := range t.p.runs {
		if &t.p.runs[i] == x {
			t.x.flags[i].has = false
		}
	}
}

func anyFence(t *tx, _ uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
	if t.doing == committing && s.QueueState == store.StateOwned {
		s.Fence = t.commit.Fence
	}
	return s
}

func secondHasFree(t *tx, id store.LimitID, l protocol.Limit) protocol.Limit {
	if t.doing == claiming && id == limitIDs[1] {
		l.AtOnce = 0
	}
	return l
}

func expires(n *home) {
	for i := range n.x.flags {
		n.x.flags[i].has = false
	}
	for l := range n.x.limits {
		n.x.limits[l].held = 0
	}
}

func oneMoreFits(t *tx, _ store.LimitID, l protocol.Limit) protocol.Limit {
	if t.doing == claiming && l.AtOnce > 0 {
		l.AtOnce++
	}
	return l
}

func twoMoreFitAtStart(t *tx, _ store.LimitID, l protocol.Limit) protocol.Limit {
	if t.doing == creating && l.AtOnce > 0 {
		l.AtOnce += 2
	}
	return l
}

func nobodyWaitsAtStart(t *tx, _ store.LimitID, l protocol.Limit) protocol.Limit {
	if t.doing == creating {
		l.Waits = 0
	}
	return l
}

func countedAllTheSame(t *tx, before limitState, l protocol.Limit) protocol.Limit {
	if t.doing == creating {
		l.Waits += int(before.waits)
	}
	return l
}

func notAboveCapacity(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	if before.atOnce > 0 && before.held > int8(before.atOnce) && int8(l.Held) < before.held {
		l.Held = int(before.held)
	}
	return l
}

func neverPaused(_ *tx, _ store.LimitID, l protocol.Limit) protocol.Limit {
	l.Paused = false
	return l
}

func calledForEver(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if t.doing == turning && before.Mode == protocol.QueueAdmitted {
		l.Mode = protocol.QueueAdmitted
	}
	return l
}

func openedByReturn(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if t.doing == otherwise && before.Mode == protocol.QueueClosed {
		l.Mode, l.Until = protocol.QueueOpen, 0
	}
	return l
}

func standsEverywhere(_ *tx, _, l protocol.LimiterQueue) protocol.LimiterQueue {
	if l.Mode == protocol.QueueClosed {
		l.Stands = 1<<kinds - 1
	}
	return l
}

func standsNowhere(_ *tx, _, l protocol.LimiterQueue) protocol.LimiterQueue {
	if l.Mode == protocol.QueueClosed {
		l.Stands = 0
	}
	return l
}

// standsOn lets a closed queue count also at all limits at which it has counted before.
func standsOn(_ *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if l.Mode == protocol.QueueClosed && before.Mode == protocol.QueueClosed {
		l.Stands |= before.Stands
	}
	return l
}

// standsStill prevents a closed queue from counting at a limit at which it has not counted before.
func standsStill(_ *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if l.Mode == protocol.QueueClosed && before.Mode == protocol.QueueClosed {
		l.Stands &= before.Stands
	}
	return l
}

func laterNotPaused(_ *tx, id store.LimitID, l protocol.Limit) protocol.Limit {
	if id != limitIDs[0] && l.Paused {
		l.Paused, l.AtOnce = false, -1 // a limit of -1 lacks free capacity like a paused one
	}
	return l
}

func notCalledBySet(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if t.doing == configuring && before.Mode == protocol.QueueClosed && l.Mode == protocol.QueueAdmitted {
		return before
	}
	return l
}

func calledThroughPause(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if t.doing == configuring && before.Mode == protocol.QueueAdmitted {
		return before
	}
	return l
}

func untimed(_ *tx, _, l protocol.LimiterQueue) protocol.LimiterQueue {
	l.Until = 0
	return l
}

// untimedClosed removes the recheck times of closed queues, but not the ends of admissions.
func untimedClosed(_ *tx, _, l protocol.LimiterQueue) protocol.LimiterQueue {
	if l.Mode == protocol.QueueClosed {
		l.Until = 0
	}
	return l
}

func neverOpened(t *tx, before, l protocol.LimiterQueue) protocol.LimiterQueue {
	if t.doing == configuring && l.Mode != protocol.QueueClosed {
		return before
	}
	return l
}

func untold(what operation, c *protocol.Changes[uint8]) {
	if what == committing {
		c.Ready, c.Turns = nil, nil
	}
}

func staysInQueue(t *tx, before run, x *run) {
	for i := range t.p.runs {
		if &t.p.runs[i] == x && t.doing == delivering && t.x.flags[i].off {
			t.x.enter(t.home, uint8(i+1))
			t.x.flags[i].place = 0
		}
	}
}

func notLeftQueue(t *tx, before run, x *run) {
	for i := range t.p.runs {
		if &t.p.runs[i] == x && t.doing == delivering && t.x.flags[i].off {
			t.x.flags[i].off = false
			t.x.enter(t.home, uint8(i+1))
		}
	}
}

// saved returns the index of run x.
func saved(t *tx, x *run) int {
	for i := range t.p.runs {
		if &t.p.runs[i] == x {
			return i
		}
	}
	panic("check: a run is none of the partition")
}

func fenceOnSeizure(t *tx, before run, x *run) {
	if t.doing == seizing {
		x.epoch = before.epoch
	}
}

func permitsOnSeizure(t *tx, _ run, x *run) {
	if t.doing == seizing && x.queueState == store.StateOwned {
		t.x.flags[saved(t, x)].has = true
	}
}

func keptUnused(t *tx, _ run, x *run) {
	if t.doing == committing && x.queueState == store.StateParked && t.commit.Unused != store.UnusedNone {
		t.x.flags[saved(t, x)].has = true
	}
}

func noPlace(what operation) func(*tx, run, *run) {
	return func(t *tx, _ run, x *run) {
		if t.doing == what && x.queueState != store.StateReady {
			t.x.flags[saved(t, x)].place = 0
		}
	}
}

func noRefund(t *tx, before limitState, l protocol.Limit) protocol.Limit {
	if t.doing == committing {
		l.TAT = t.Now().Add(time.Duration(before.tat) * clockTick).UnixMicro()
	}
	return l
}

func noTAT(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	l.TAT = 0
	return l
}

func tatBack(_ *tx, before limitState, l protocol.Limit) protocol.Limit {
	if int8(l.Held) < before.held {
		l.TAT = 0
	}
	return l
}

func noRate(t *tx, _ store.LimitID, l protocol.Limit) protocol.Limit {
	if t.doing == claiming && l.Rate > 0 {
		l.TAT = 0
	}
	return l
}
