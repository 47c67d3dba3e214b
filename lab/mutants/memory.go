package main

// contract returns the test names of behaviors in the conformance suite of a store.
func contract(suite string, behaviors []string) []string {
	names := make([]string, len(behaviors))
	for i, b := range behaviors {
		names[i] = suite + "/" + b
	}
	return names
}

// waiting returns a mutant of package notify. The given behaviors of the conformance suite on the
// memory store must kill it.
func waiting(id, disabled, file, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, file, before, after, behaviors...)
	m.File = "runtime/store/notify/" + file
	return m
}

// memory returns a mutant of memstore. The given behaviors of the conformance suite must kill it.
func memory(id, disabled, file, before, after string, behaviors ...string) Mutant {
	return Mutant{
		ID: id, Disabled: disabled, File: "memstore/" + file, Old: before, New: after,
		Package: "memstore", Tests: contract("TestStore_KeepsTheContract/one_partition", behaviors),
	}
}

// behind returns the mutant with After set to text.
func (m Mutant) behind(text string) Mutant {
	m.After = text
	return m
}

// by returns the mutant with additional tests of the same package that must kill it.
func (m Mutant) by(tests ...string) Mutant {
	m.Tests = tests
	return m
}

// hanging returns the mutant with Hangs set.
func (m Mutant) hanging() Mutant {
	m.Hangs = true
	return m
}

var memoryMutants = []Mutant{
	memory("W5/memory/pause", "an outage counts as silence as long as it is", "session.go",
		"min(now-p.heard, store.CountedPause(l.ttl).Milliseconds())", "now-p.heard", "W5_AnOutageOfTheStoreMakesNobodyDead"),

	memory("C1/memory/line", "a successor does not wait in line", "tx.go",
		"n.line = append(n.line, r)", "_ = n", "C1_TheEndOfTheActiveRunStartsTheNextInLine"),

	memory("O1/memory/derived", "the same record is written twice", "outbox.go",
		"if o.records[key] != nil {", "if false {", "O1_ARecordThatIsThereStaysAsItIs"),
	memory("O1/memory/written", "fresh records are not in the order in which they were written", "outbox.go",
		"cmp.Compare(h[i].order, h[j].order)", "cmp.Compare(h[j].order, h[i].order)", "O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten"),
	memory("O1/memory/pair", "a record is settled before an earlier one of its pair", "outbox.go",
		"case r.phase == store.PhaseAnswered && !behind:", "case false:", "O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair"),

	memory("O2/memory/horizon", "a record is settled at once", "outbox.go",
		"r.due = now + store.Horizon.Milliseconds()", "r.due = now + 1", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/day", "an item of an outbox is forgotten after a day", "seen.go",
		"if !keep {", "if true {", "O2_AKeptItemIsRememberedForLongerThanADay"),
	memory("O2/memory/confirm", "Confirm forgets nothing", "seen.go",
		"delete(kept, id)", "", "O2_AKeptItemIsRememberedUntilConfirm"),
	memory("O2/memory/created-by", "a run does not remember the record that created it", "tx.go",
		"r.links = &links{createdBy: createdBy}", "r.links = &links{}", "O2_CreateKeepsCreatedByUntilConfirm"),

	memory("W1/memory/heartbeat", "a heartbeat creates a lease", "session.go",
		"l, err := p.live(id)", "if p.sessions[id] == nil {\n\t\tp.sessions[id] = &session{id: id, ttl: time.Minute}\n\t}\n\tl, err := p.live(id)",
		"W1_HeartbeatNeverCreatesALease").behind(") Heartbeat("),
	memory("W1/memory/recovering", "a session that is being recovered is taken for live", "session.go",
		"if l == nil || l.recovering {", "if l == nil {").by("TestRecover_OfManyRunsDoesNotHoldUpOthers"),

	memory("W2/memory/count", "a heartbeat does not tell how many runs are owned", "session.go",
		"Owned: l.owned.n, ", "", "W2_HeartbeatTellsHowManyRunsAreOwned"),
	memory("W2/memory/unread", "a heartbeat does not name runs with unread items", "session.go",
		"Unread: ids(l.unread), ", "", "W2_HeartbeatNamesRunsWithUnreadItems"),
	memory("W2/memory/fences", "Reconcile does not tell the fences", "session.go",
		"Run: r.id, Fence: r.fence()", "Run: r.id", "W2_ReconcileTellsTheOwnedRunsWithTheirFences"),

	memory("K1/memory/queue-state", "a run that is claimed stays in the ready set", "tx.go",
		"p.leave(r)", "", "K1_ClaimNeverGivesARunTwice").behind("moved := s.QueueState != r.queueState"),

	memory("K2/memory/ready", "what is made ready wakes nobody", "tx.go",
		"p.wake(r.route)", "_ = r", "K2_AStartWakesABlockedWait").behind("range changes.Ready"),
	memory("K2/memory/rest", "a claim does not announce what it leaves", "claim.go",
		"p.wake(route)", "", "K2_ClaimSetsTheWakeAgainForWhatItLeaves"),
	memory("K2/memory/one", "a wake goes to everybody", "wait.go",
		"c.wake = false", "", "K2_OneWakePerRoute"),
	waiting("K2/memory/lost", "a wake that was taken is lost with a Wait that gives up", "call.go",
		"!woken.Due && len(woken.Claim)+len(woken.Sooner)+len(woken.Unread) == 0", "true", "AWaitThatGaveUpTakesNoWake"),

	memory("K3/memory/wake", "an earlier due time wakes nobody", "tx.go",
		"p.wake(r.route)", "", "K3_ParkWithTheEarliestDueTimeWakesTheRoute").behind("range changes.Due"),
	memory("K3/memory/tell", "those who wait are not told of an earlier due time", "tx.go",
		"p.waiters.Due(r.due)", "", "K3_AnEarlierDueTimeEndsTheWait"),
	waiting("K3/notify/tell", "a Wait is not told of a due time that is earlier than what it knows of", "waiters.go",
		"if w.known == 0 || at < w.known {", "if w.known < 0 {", "K3_AnEarlierDueTimeEndsTheWait"),
	waiting("K3/memory/known", "an earlier due time that is there already is not told", "waiters.go",
		"case due != 0 && due < w.known:", "case false:", "K3_AnEarlierDueTimeThatIsThereAlreadyEndsTheWait"),
	memory("K3/memory/claim", "a claim does not call Due", "claim.go",
		"p.makeDue(chores)", "", "ClaimMakesDueRunsReady"),
	memory("K3/memory/full", "a claim of nothing does not call Due", "claim.go",
		"p.makeDue(chores)", "if c.Max > 0 {\n\t\tp.makeDue(chores)\n\t}", "AClaimOfNothingMakesDueRunsReadyForOthers"),
}
