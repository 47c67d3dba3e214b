package main

// contract names behaviours of the conformance suite as a store runs it.
func contract(suite string, behaviors []string) []string {
	names := make([]string, len(behaviors))
	for i, b := range behaviors {
		names[i] = suite + "/" + b
	}
	return names
}

// memory is a mutant of memstore that behaviours of the conformance suite are to
// kill.
func memory(id, disabled, file, before, after string, behaviors ...string) Mutant {
	return Mutant{
		ID: id, Disabled: disabled, File: "memstore/" + file, Old: before, New: after,
		Package: "memstore", Tests: contract("TestStore_KeepsTheContract/one_partition", behaviors),
	}
}

// behind looks for the text behind another one, which occurs once.
func (m Mutant) behind(text string) Mutant {
	m.After = text
	return m
}

// by names other tests of the package that must kill the mutant.
func (m Mutant) by(tests ...string) Mutant {
	m.Tests = tests
	return m
}

// hanging is a mutant that tests notice by not coming to an end.
func (m Mutant) hanging() Mutant {
	m.Hangs = true
	return m
}

var memoryMutants = []Mutant{
	memory("F1/memory/commit", "a commit is not fenced", "commit.go",
		"if !r.holds(c.Fence) {", "if false {", "F1_CommitNeedsEpochAndToken"),
	memory("F1/memory/epoch", "the epoch is not compared", "run.go",
		" && r.epoch == f.Epoch", "", "F1_CommitNeedsEpochAndToken"),
	memory("F1/memory/token", "the token is not compared", "run.go",
		" && r.token == f.Token", "", "F1_CommitNeedsEpochAndToken"),
	memory("F1/memory/nobody", "an empty token opens a run without an owner", "run.go",
		"return r.place == store.PlaceOwned && ", "return ", "F1_AnEmptyTokenOpensNoRunWithoutAnOwner"),
	memory("F1/memory/release", "a release is not fenced", "release.go",
		"r == nil || !r.holds(fence)", "r == nil", "F1_ReleaseNeedsEpochAndToken"),
	memory("F1/memory/note", "a side write of a step is not fenced", "notes.go",
		"r == nil || !r.holds(fence)", "r == nil", "F1_NotesNeedEpochAndToken"),
	memory("F1/memory/claim", "a claim does not count the epoch up", "run.go",
		"r.epoch++", "", "F1_EachClaimCountsTheEpochUp"),

	memory("F2/memory/recover", "a recovery leaves the epoch as it is", "session.go",
		"r.epoch++", "", "F2_RecoverChangesTheFenceAtOnce"),
	memory("F2/memory/release", "a release leaves the epoch as it is", "release.go",
		"r.epoch++", "", "ReleaseMakesReadyUnderANewFence"),
	memory("F2/memory/token", "a run that leaves its owner keeps the token", "run.go",
		"r.owner, r.token = nil, event.Token{}", "r.owner = nil", "F2_ParkFencesTheOwner"),
	memory("F2/memory/continue", "a run that continued stays with its owner", "continue.go",
		"p.retire(old)", "", "F2_ContinueFencesTheOwner"),

	memory("F3/memory/prev", "a commit need not continue the last frame", "commit.go",
		"if r.last != c.Prev {", "if false {", "F3_CommitMustContinueTheLastFrame"),
	memory("F3/memory/count", "a commit that fits by its count is taken for one that fits", "commit.go",
		"if r.last != c.Prev {", "if r.last != c.Prev && c.First != r.seq+1 {", "F3_APositionIsNotACount"),
	memory("F3/memory/seq", "a commit need not continue the sequence", "commit.go",
		"c.Frame != nil && c.First != r.seq+1", "false", "CommitMustContinueTheSequence"),
	memory("F3/memory/last", "a commit does not set the position", "commit.go",
		"r.seq, r.last = c.Last, c.CID", "r.seq = c.Last", "CommitAppendsAFrame"),

	memory("M1/memory/seen", "what is accepted is not remembered", "deliver.go",
		"p.remember(r, item.ID, keep)", "", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	memory("M1/memory/inbox", "what is accepted is not in the inbox", "deliver.go",
		"r.inbox = append(r.inbox, item)", "", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	memory("M1/memory/again", "an item is accepted again", "deliver.go",
		"if p.accepted(r.chain, d.Item.ID) {", "if false {", "M1_TheSameItemIsAcceptedOnce"),
	memory("M1/memory/chain", "the runs of a chain do not share what was seen", "seen.go",
		"s := p.seenOf(r.chain)", "s := p.seenOf(r.id)", "DeliverToAnyRunOfAChainReachesTheLast"),
	memory("M1/memory/refusal", "a refusal is pushed again", "outbox.go",
		" && !p.accepted(from.chain, m.Refusal.ID)", "", "M1_ARefusalThatWasAcceptedIsNotPushedAgain"),

	memory("C2/memory/items", "a run is created without its items", "create.go",
		"range c.Items {", "range c.Items[:0] {", "C2_ARunHasTheItemsThatItIsCreatedWith"),

	memory("M2/memory/ended", "an ended run is not asked what it has seen", "deliver.go",
		"if p.accepted(", "if r.place != store.PlaceEnded && p.accepted(", "M2_DeliverIsAcceptedAgainAfterTheRunEnded"),

	memory("M3/memory/consume", "a commit consumes whatever is there", "commit.go",
		" || r.inbox[c.Consume-1].ID != c.ConsumeLast", "", "M3_ConsumeNamesTheItem"),
	memory("M3/memory/more", "a commit consumes more than there is", "commit.go",
		"c.Consume > len(r.inbox) || r.inbox[c.Consume-1].ID != c.ConsumeLast", "c.Consume <= len(r.inbox) && r.inbox[c.Consume-1].ID != c.ConsumeLast",
		"M3_ConsumeNamesTheItem"),

	memory("M4/memory/park", "a run parks with items in its inbox", "commit.go",
		"c.Effect == store.EffectPark || ", "", "M4_ParkAndFinishNeedAnEmptyInbox"),
	memory("M4/memory/finish", "a run finishes with items in its inbox", "commit.go",
		" || c.Effect == store.EffectFinish", "", "M4_ParkAndFinishNeedAnEmptyInbox"),
	memory("M4/memory/for-this-run", "a run continues with items for itself in its inbox", "continue.go",
		".Scope == store.ScopeRun", ".Scope > 99", "M4_ContinueNeedsItemsForTheRunAloneToBeRead"),
	memory("M4/memory/rest", "the rest of the inbox does not go on with the chain", "continue.go",
		"r.chain, r.inbox = old.chain, inbox", "r.chain, r.inbox = old.chain, inbox[:0]", "M4_ContinueTakesTheRestOfTheInboxAlong"),
	memory("M4/memory/tip", "what is sent to a run of a chain does not reach the last", "deliver.go",
		"r = p.tip(r)", "_ = p.tip", "DeliverToAnyRunOfAChainReachesTheLast"),

	memory("W5/memory/pause", "an outage counts as silence as long as it is", "session.go",
		"min(now-p.heard, store.CountedPause(l.ttl).Milliseconds())", "now-p.heard", "W5_AnOutageOfTheStoreMakesNobodyDead"),
	memory("B2/memory/code", "a blocked run is given to another session with the same code", "blocked.go",
		"return l.code == s.code && p.isLive(l)", "return l == s", "B2_NoSessionWithTheSameCodeIsGivenIt"),

	memory("C1/memory/exists", "create does not ask whether the run exists", "create.go",
		"if r := p.runs[c.Run]; r != nil {", "if r := p.runs[c.Run]; false {", "C1_CreateSentAgainIsTheSameRun"),
	memory("C1/memory/policy-first", "the policy is asked before whether the run exists", "create.go",
		"if r := p.runs[c.Run]; r != nil {", "if r := p.runs[c.Run]; c.WorkflowID == \"\" && r != nil {", "C1_CreateSentAgainIsAskedBeforeThePolicy"),
	memory("C1/memory/deleted", "a deleted run is created again", "create.go",
		"if r := p.runs[c.Run]; r != nil {", "if r := p.find(c.Run); r != nil {", "C1_CreateSentAgainAfterDeleteIsTheSameRun"),
	memory("C1/memory/active", "two runs of a workflow id are active", "create.go",
		"if n.active != nil {", "if false {", "C1_CreateUnderActiveUseAnswersTheActiveRun"),
	memory("C1/memory/line", "a successor does not wait in line", "create.go",
		"n.line = append(n.line, r)", "", "C1_TheEndOfTheActiveRunStartsTheNextInLine"),
	memory("C1/memory/heir", "the end of the active run starts nobody", "run.go",
		"p.makeReady(n.active)", "", "C1_TheEndOfTheActiveRunStartsTheNextInLine"),
	memory("C1/memory/continue", "a run continues that is not the active one", "continue.go",
		`r.wid != "" && p.name(r.wid).active != r`, "false").by("TestCommit_OnlyTheActiveRunOfAWorkflowIDContinues"),
	memory("C1/memory/owner-later", "a session owns a run that is for later", "create.go",
		"case due != 0:\n\t\treturn nil, store.ErrNotClaimable", "", "ARunThatASessionWouldHaveToWaitForIsNotCreated"),
	memory("C1/memory/owner-line", "a run that is to be owned waits in line", "create.go",
		"if c.Owner != nil {\n\t\t\treturn store.Created{Err: store.ErrNotClaimable}\n\t\t}", "", "ARunBehindAnActiveOneIsNotBornOwned"),
	memory("C1/memory/owner-over", "a run is created whose owner is over", "create.go",
		"return p.live(c.Owner.Session)", "return p.sessions[c.Owner.Session], nil", "ASessionThatIsOverBearsNothing"),
	memory("C1/memory/owner-again", "a create sent again is told of a fence that it has not", "create.go",
		" && r.holds(c.Owner.Fence())", "", "C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence"),

	memory("P1/memory/ended", "a run is purged that has not ended", "purge.go",
		"if r.place != store.PlaceEnded {", "if r.place == 99 {", "P1_OnlyRunsThatHaveEndedArePurged",
		"P1_ARunIsNotPurgedBeforeItsBirthIsConfirmed", "O2_ConfirmForgetsBirthAndItemOfOneRecord").behind("func (p *partition) schedule"),
	memory("P1/memory/birth", "a run is purged that may be created again", "purge.go",
		`r.links.birth != "" || `, "", "P1_ARunIsNotPurgedBeforeItsBirthIsConfirmed"),
	memory("P1/memory/records", "a run is purged that has records to send", "purge.go",
		"r.links.records > 0", "false", "P1_ASenderIsNotPurgedWhileItHasRecords"),
	memory("P1/memory/chain", "the first run of a chain is purged before the others", "purge.go",
		" || p.chains[r.id] != nil", "", "P1_TheFirstRunOfAChainIsPurgedAfterAllOthers"),
	memory("P1/memory/horizon", "a run is purged as soon as it has ended", "purge.go",
		"return millis(store.PurgeTime(timeOf(r.created), timeOf(r.ended), keep))", "return r.ended + keep.Milliseconds()",
		"P1_ARunIsKeptForTheHorizonAfterItsEnd"),

	memory("O1/memory/derived", "the same record is written twice", "outbox.go",
		"if o.records[key] != nil {", "if false {", "O1_ARecordThatIsThereStaysAsItIs"),
	memory("O1/memory/written", "fresh records are not in the order in which they were written", "outbox.go",
		"cmp.Compare(h[i].order, h[j].order)", "cmp.Compare(h[j].order, h[i].order)", "O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten"),
	memory("O1/memory/pair", "a record is settled before an earlier one of its pair", "outbox.go",
		"case r.phase == store.PhaseAnswered && !behind:", "case false:", "O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair"),
	memory("O1/memory/unknown", "an unknown receiver is taken for an answer although a record before is open", "outbox.go",
		"m.Unknown && p.outbox.takeBack(r, p.now())", "false", "O1_AnUnknownReceiverTakesBackWhatWasAnsweredBefore"),
	memory("O1/memory/phase", "a mark moves a record that was moved on by another relay", "outbox.go",
		"r == nil || r.phase != m.Phase", "r == nil", "MarkIgnoresARecordInAnotherPhase"),

	memory("O2/memory/settle", "a record that was answered is not settled", "outbox.go",
		"p.outbox.move(r, store.PhaseAnswered, p.now())", "p.outbox.move(r, store.PhaseNote, p.now())", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/horizon", "a record is settled at once", "outbox.go",
		"r.due = now + store.Horizon.Milliseconds()", "r.due = now + 1", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/note", "a settled record leaves no note", "outbox.go",
		"p.outbox.move(r, store.PhaseNote, p.now())", "p.outbox.remove(r)", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/day", "an item of an outbox is forgotten after a day", "seen.go",
		"if !keep {", "if true {", "O2_AKeptItemIsRememberedForLongerThanADay"),
	memory("O2/memory/confirm", "Confirm forgets nothing", "outbox.go",
		"delete(kept, record)", "", "O2_AKeptItemIsRememberedUntilConfirm"),
	memory("O2/memory/birth", "a run does not remember the record that created it", "create.go",
		"r.links = &links{birth: c.Birth}", "r.links = &links{}", "O2_CreateKeepsItsBirthUntilConfirm"),

	memory("W1/memory/heartbeat", "a heartbeat creates a lease", "session.go",
		"l, err := p.live(id)", "if p.sessions[id] == nil {\n\t\tp.sessions[id] = &session{id: id, ttl: time.Minute}\n\t}\n\tl, err := p.live(id)",
		"W1_HeartbeatNeverCreatesALease").behind(") Heartbeat("),
	memory("W1/memory/recovering", "a session that is being recovered is taken for live", "session.go",
		"if l == nil || l.recovering {", "if l == nil {").by("TestRecover_OfManyRunsDoesNotHoldUpOthers"),

	memory("W2/memory/count", "a heartbeat does not tell how many runs are owned", "session.go",
		"Owned: l.owned.n, ", "", "W2_HeartbeatTellsHowManyRunsAreOwned"),
	memory("W2/memory/mail", "a heartbeat does not name runs with mail", "session.go",
		"Mail: ids(l.mail), ", "", "W2_HeartbeatNamesRunsWithMailUntilItIsRead"),
	memory("W2/memory/fences", "Reconcile does not tell the fences", "session.go",
		"Run: r.id, Fence: r.fence()", "Run: r.id", "W2_ReconcileTellsTheOwnedRunsWithTheirFences"),

	memory("W3/memory/applied", "a commit that was applied is not known again", "commit.go",
		"if c.Frame != nil && r.last == c.CID {", "if false {", "W3_TheSameCommitIsAppliedOnce"),

	memory("W4/memory/fence-first", "a commit that was applied is fenced once the run has left", "commit.go",
		"if c.Frame != nil && r.last == c.CID {", "if c.Frame != nil && r.last == c.CID && r.holds(c.Fence) {",
		"W3_TheSameCommitIsAppliedOnceWithEveryEffect"),
	memory("W4/memory/order", "the position is asked before the fence", "commit.go",
		"if !r.holds(c.Fence) {", "if r.last == c.Prev && !r.holds(c.Fence) {", "W4_AnOlderGuardAnswersBeforeAYoungerOne"),

	memory("K1/memory/place", "a run that is claimed stays in the ready set", "run.go",
		"p.leave(r)", "", "K1_ClaimNeverGivesARunTwice").behind("func (p *partition) grant("),
	memory("K1/memory/owner", "a run that is born owned wakes", "create.go",
		"p.grant(r, owner, c.Owner.Token, 0)", "p.makeReady(r)\n\t\tp.grant(r, owner, c.Owner.Token, 0)", "K1_ARunThatIsBornOwnedIsNotToBeClaimed"),

	memory("K2/memory/ready", "what is made ready wakes nobody", "run.go",
		"p.wake(r.class)", "", "K2_AStartWakesABlockedWait").behind("r.class.push(r)"),
	memory("K2/memory/rest", "a claim does not announce what it leaves", "claim.go",
		"p.wake(class)", "", "K2_ClaimSetsTheWakeAgainForWhatItLeaves"),
	memory("K2/memory/one", "a wake goes to everybody", "wait.go",
		"c.wake, w.claim = false, true", "w.claim = true", "K2_OneWakePerClass"),
	memory("K2/memory/lost", "a wake that was taken is lost with a Wait that gives up", "wait.go",
		"!woken.Due && len(woken.Claim) == 0 && len(woken.Mail) == 0", "true", "AWaitThatGaveUpTakesNoWake"),

	memory("K3/memory/wake", "an earlier due time wakes nobody", "run.go",
		"p.wake(r.class)", "", "K3_ParkWithTheEarliestDueTimeWakesTheClass").behind("if p.timers.first() == r {"),
	memory("K3/memory/tell", "those who wait are not told of an earlier due time", "run.go",
		"p.tellDue(due)", "", "K3_AnEarlierDueTimeEndsTheWait"),
	memory("K3/memory/known", "an earlier due time that is there already is not told", "wait.go",
		"w.due = next != 0 && next < w.known", "w.due = false", "K3_AnEarlierDueTimeThatIsThereAlreadyEndsTheWait"),
	memory("K3/memory/claim", "a claim does not call Due", "claim.go",
		"p.makeDue(chores)", "", "ClaimMakesDueRunsReady"),
	memory("K3/memory/full", "a claim of nothing does not call Due", "claim.go",
		"p.makeDue(chores)", "if c.Max > 0 {\n\t\tp.makeDue(chores)\n\t}", "AClaimOfNothingMakesDueRunsReadyForOthers"),
}
