package main

// contract names behaviours of the conformance suite as a store runs it.
func contract(suite string, behaviors []string) []string {
	names := make([]string, len(behaviors))
	for i, b := range behaviors {
		names[i] = suite + "/" + b
	}
	return names
}

// waiting is a mutant of package notify, which behaviours of the conformance suite, as
// memory runs it, must kill.
func waiting(id, disabled, file, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, file, before, after, behaviors...)
	m.File = "runtime/store/notify/" + file
	return m
}

// memory is a mutant of memstore that behaviours of the conformance suite are to
// kill.
func memory(id, disabled, file, before, after string, behaviors ...string) Mutant {
	return Mutant{
		ID: id, Disabled: disabled, File: "memstore/" + file, Old: before, New: after,
		Package: "memstore", Tests: contract("TestStore_KeepsTheContract/one_partition", behaviors),
	}
}

// kernel is a mutant of package protocol, by which memstore and sqlitestore go.
// Behaviours of the conformance suite, as memory runs it, must kill it.
func kernel(id, disabled, file, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, file, before, after, behaviors...)
	m.File = "runtime/store/protocol/" + file
	return m
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
	kernel("F1/kernel/commit", "a commit is not fenced", "commit.go",
		"case !s.Holds(c.Fence): // [F1]", "case false:", "F1_CommitNeedsEpochAndToken"),
	kernel("F1/kernel/epoch", "the epoch is not compared", "run.go",
		"return s.QueueState == store.StateOwned && s.Fence == f", "return s.QueueState == store.StateOwned && s.Fence.Token == f.Token", "F1_CommitNeedsEpochAndToken"),
	kernel("F1/kernel/token", "the token is not compared", "run.go",
		"return s.QueueState == store.StateOwned && s.Fence == f", "return s.QueueState == store.StateOwned && s.Fence.Epoch == f.Epoch", "F1_CommitNeedsEpochAndToken"),
	kernel("F1/kernel/nobody", "an empty token opens a run without an owner", "run.go",
		"return s.QueueState == store.StateOwned && ", "return ", "F1_AnEmptyTokenOpensNoRunWithoutAnOwner"),
	kernel("F1/kernel/release", "a release is not fenced", "claim.go",
		"r == none || !s.Holds(fence)", "r == none", "F1_ReleaseNeedsEpochAndToken"),
	kernel("F1/kernel/step-data", "a side write of a step is not fenced", "stream.go",
		"r == none || !s.Holds(fence)", "r == none", "F1_StepDataNeedsEpochAndToken").behind("func (o *Op[R, S]) SetStepData"),
	kernel("F1/kernel/claim", "a claim does not count the epoch up", "claim.go",
		"Epoch: s.Fence.Epoch + 1", "Epoch: s.Fence.Epoch", "F1_EachClaimCountsTheEpochUp"),

	kernel("F2/kernel/recover", "a recovery leaves the epoch as it is", "claim.go",
		"s.Fence.Epoch++", "", "F2_RecoverChangesTheFenceAtOnce").behind("func (o *Op[R, S]) Recover"),
	kernel("F2/kernel/release", "a release leaves the epoch as it is", "claim.go",
		"s.Fence.Epoch++", "", "ReleaseMakesReadyUnderANewFence").behind("func (o *Op[R, S]) Release"),
	kernel("F2/kernel/token", "a run that leaves its owner keeps the token", "run.go",
		"s.QueueState, s.Owner, s.Fence.Token, s.Due, s.Exempt = 0, none, event.Token{}, 0, false", "s.QueueState, s.Owner, s.Due, s.Exempt = 0, none, 0, false", "F2_ParkFencesTheOwner"),
	kernel("F2/kernel/continue", "a run that continued stays with its owner", "commit.go",
		"if err := o.retire(r, s); err != nil {", "if err := error(nil); err != nil {", "F2_ContinueFencesTheOwner"),

	kernel("F3/kernel/prev", "a commit need not continue the last frame", "commit.go",
		"case c.Prev != s.Last:", "case false:", "F3_CommitMustContinueTheLastFrame"),
	kernel("F3/kernel/count", "a commit that fits by its count is taken for one that fits", "commit.go",
		"case c.Prev != s.Last:", "case c.Prev != s.Last && c.First != s.Seq+1:", "F3_APositionIsNotACount"),
	kernel("F3/kernel/seq", "a commit need not continue the sequence", "commit.go",
		"c.Frame != nil && c.First != s.Seq+1", "false", "CommitMustContinueTheSequence"),
	kernel("F3/kernel/last", "a commit does not set the position", "commit.go",
		"s.N, s.Seq, s.Last = s.N+1, c.Last, c.CommitID", "s.N, s.Seq = s.N+1, c.Last", "CommitAppendsAFrame"),

	kernel("M1/kernel/seen", "what is accepted is not remembered", "deliver.go",
		"if err := o.Tx.Remember(s.Chain, item.ID, o.Tx.Now().UnixMilli(), keep); err != nil {", "if err := error(nil); err != nil {", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	kernel("M1/kernel/inbox", "what is accepted is not in the inbox", "deliver.go",
		"return o.Tx.AddItem(r, item)", "return nil", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	kernel("M1/kernel/again", "an item is accepted again", "deliver.go",
		"case seen:", "case false && seen:", "M1_TheSameItemIsAcceptedOnce"),
	kernel("M1/kernel/chain", "the runs of a chain do not share what was seen", "deliver.go",
		"o.Tx.Remember(s.Chain,", "o.Tx.Remember(s.ID,", "DeliverToAnyRunOfAChainReachesTheLast"),
	kernel("M1/kernel/refusal", "a refusal is pushed again", "deliver.go",
		"if err != nil || seen {", "if err != nil || seen && false {", "M1_ARefusalThatWasAcceptedIsNotPushedAgain"),

	kernel("C2/kernel/items", "a run is created without its items", "create.go",
		"range c.Items {", "range c.Items[:0] {", "C2_ARunHasTheItemsThatItIsCreatedWith"),

	kernel("M2/kernel/ended", "an ended run is not asked what it has seen", "deliver.go",
		"case seen:", "case seen && s.QueueState != store.StateEnded:", "M2_DeliverIsAcceptedAgainAfterTheRunEnded"),

	kernel("M3/kernel/consume", "a commit consumes whatever is there", "commit.go",
		"if last != c.ConsumeLast {", "if false && last != c.ConsumeLast {", "M3_ConsumeNamesTheItem"),
	kernel("M3/kernel/more", "a commit consumes more than there is", "commit.go",
		"case c.Consume > s.Unread:\n\t\treturn s.conflict(c, notHeld)", "case c.Consume > s.Unread:\n\t\treturn nil",
		"M3_ConsumeNamesTheItem"),

	kernel("M4/kernel/park", "a run parks with items in its inbox", "commit.go",
		"case store.EffectPark, store.EffectFinish:", "case store.EffectFinish:", "M4_ParkAndFinishNeedAnEmptyInbox"),
	kernel("M4/kernel/finish", "a run finishes with items in its inbox", "commit.go",
		"case store.EffectPark, store.EffectFinish:", "case store.EffectPark:", "M4_ParkAndFinishNeedAnEmptyInbox"),
	kernel("M4/kernel/for-this-run", "a run continues with items for itself in its inbox", "commit.go",
		"if bound {", "if false && bound {", "M4_ContinueNeedsItemsForTheRunAloneToBeRead"),
	kernel("M4/kernel/rest", "the rest of the inbox does not go on with the chain", "commit.go",
		"if err := o.Tx.MoveItems(r, next); err != nil {", "if err := error(nil); err != nil {", "M4_ContinueTakesTheRestOfTheInboxAlong"),
	kernel("M4/kernel/latest", "what is sent to a run of a chain does not reach the last", "deliver.go",
		"return latest, l, nil", "return r, s, nil", "DeliverToAnyRunOfAChainReachesTheLast"),

	memory("W5/memory/pause", "an outage counts as silence as long as it is", "session.go",
		"min(now-p.heard, store.CountedPause(l.ttl).Milliseconds())", "now-p.heard", "W5_AnOutageOfTheStoreMakesNobodyDead"),
	kernel("B2/kernel/code", "a blocked run is given to another session with the same code", "claim.go",
		"!other.Over && other.Code == session.Code", "!other.Over && other.ID == session.ID", "B2_NoSessionWithTheSameCodeIsGivenIt"),

	kernel("C1/kernel/exists", "create does not ask whether the run exists", "create.go",
		"if r != none {", "if r != none && false {", "C1_CreateSentAgainIsTheSameRun"),
	kernel("C1/kernel/policy-first", "the policy is asked before whether the run exists", "create.go",
		"if r != none {", `if r != none && c.WorkflowID == "" {`, "C1_CreateSentAgainIsAskedBeforeThePolicy"),
	kernel("C1/kernel/deleted", "a deleted run is created again", "create.go",
		"if r != none {", "if r != none && !o.Tx.State(r).Hidden {", "C1_CreateSentAgainAfterDeleteIsTheSameRun"),
	kernel("C1/kernel/active", "two runs of a workflow id are active", "create.go",
		"if active != none {", "if active != none && false {", "C1_CreateUnderActiveUseAnswersTheActiveRun"),
	kernel("C1/kernel/latest", "the latest start cancels the active run", "create.go",
		"if c.Active == store.ActiveCancel {", "if true {", "CreateUnderActiveLatestCancelsThoseInLineOnly"),
	kernel("C1/kernel/queue", "a queued start cancels those before it", "create.go",
		"if c.Active == store.ActiveQueue {", "if false {", "C1_RunsUnderActiveQueueStartOneAfterTheOther"),
	memory("C1/memory/line", "a successor does not wait in line", "tx.go",
		"n.line = append(n.line, r)", "_ = n", "C1_TheEndOfTheActiveRunStartsTheNextInLine"),
	kernel("C1/kernel/next", "the end of the active run starts nobody", "run.go",
		"return o.makeReady(next, &following)", "_ = following\n\treturn nil", "C1_TheEndOfTheActiveRunStartsTheNextInLine"),
	kernel("C1/kernel/continue", "a run continues that is not the active one", "commit.go",
		"if !active {", "if false && !active {").by("TestCommit_OnlyTheActiveRunOfAWorkflowIDContinues"),
	kernel("C1/kernel/owner-later", "a session owns a run that is for later", "create.go",
		"if due != 0 {", "if false {", "ARunThatASessionWouldHaveToWaitForIsNotCreated"),
	kernel("C1/kernel/owner-line", "a run that is to be owned waits in line", "create.go",
		"case c.Owner != nil:", "case false:", "ARunBehindAnActiveOneIsNotCreatedOwned").behind("func (o *Op[R, S]) createBehind"),
	kernel("C1/kernel/owner-over", "a run is created whose owner is over", "create.go",
		"o.live(c.Owner.Session)", "o.Tx.FindSession(c.Owner.Session)", "ASessionThatIsOverCreatesNothing"),
	kernel("C1/kernel/owner-again", "a create sent again is told of a fence that it has not", "create.go",
		" && s.Holds(c.Owner.Fence())", "", "C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence"),

	kernel("P1/kernel/unconfirmed", "a run is purged before the record that created it is confirmed", "purge.go",
		`if s.QueueState != store.StateEnded || s.CreatedBy != "" {`, "if s.QueueState != store.StateEnded {", "P1_OnlyRunsThatHaveEndedArePurged",
		"P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed", "O2_ConfirmForgetsCreatedByAndItemOfOneRecord"),
	kernel("P1/kernel/records", "a run is purged that has records to send", "purge.go",
		"held.Records || held.Later", "held.Later", "P1_ASenderIsNotPurgedWhileItHasRecords"),
	kernel("P1/kernel/chain", "the first run of a chain is purged before the others", "purge.go",
		"held.Records || held.Later", "held.Records", "P1_TheFirstRunOfAChainIsPurgedAfterAllOthers"),
	kernel("P1/kernel/kept", "a run is purged that remembers an item until Confirm", "purge.go",
		"|| held.Kept {", "{", "P1_ARunIsNotPurgedWhileAnItemIsRememberedUntilConfirm"),
	kernel("P1/kernel/hold", "a later run is purged although an item was sent to it by name", "deliver.go",
		"return s.ID, o.hold(d.Run, d.Item.ID)", "return s.ID, nil", "P1_ALaterRunOfAChainIsNotPurgedWhileItsItemsAreRemembered"),
	kernel("P1/kernel/horizon", "a run is purged as soon as it has ended", "purge.go",
		"return Millis(store.PurgeTime(Time(s.Created), Time(s.Ended), keep))", "return s.Ended + keep.Milliseconds()",
		"P1_ARunIsKeptForTheHorizonAfterItsEnd"),

	memory("O1/memory/derived", "the same record is written twice", "outbox.go",
		"if o.records[key] != nil {", "if false {", "O1_ARecordThatIsThereStaysAsItIs"),
	memory("O1/memory/written", "fresh records are not in the order in which they were written", "outbox.go",
		"cmp.Compare(h[i].order, h[j].order)", "cmp.Compare(h[j].order, h[i].order)", "O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten"),
	memory("O1/memory/pair", "a record is settled before an earlier one of its pair", "outbox.go",
		"case r.phase == store.PhaseAnswered && !behind:", "case false:", "O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair"),
	kernel("O1/kernel/unknown", "an unknown receiver is taken for an answer although there is a record before", "outbox.go",
		"if err != nil || !before {", "if true || err != nil || !before {", "O1_AnUnknownReceiverTakesBackWhatWasAnsweredBefore",
		"O1_AnUnknownReceiverAfterASettledRecordIsNoAnswer"),
	kernel("O1/kernel/sent", "a commit returns records that others come before", "commit.go",
		"if !before {\n\t\t\tsent", "if before || !before {\n\t\t\tsent", "O1_ACommitReturnsOnlyWhatNothingComesBefore"),
	kernel("O1/kernel/sent-new", "a commit returns records that were there", "commit.go",
		"if rec.Phase == 0 {\n\t\t\tcontinue\n\t\t}", "if rec.Phase == 0 {\n\t\t\trec, _ = o.Tx.Record(r, all[i].ID)\n\t\t}", "O1_ACommitReturnsOnlyWhatNothingComesBefore"),
	kernel("O1/kernel/late", "a refusal counts however old it is", "outbox.go",
		"if (m.Refusal != nil || m.Unknown) && o.late(m.Deadline) {", "if false {", "O1_ALateRefusalIsIgnored"),
	kernel("O1/kernel/phase", "a mark moves a record that was moved on by another relay", "outbox.go",
		"rec.Phase == 0 || rec.Phase != m.Phase", "rec.Phase == 0", "MarkIgnoresARecordInAnotherPhase"),

	kernel("O2/kernel/settle", "a record that was answered is not settled", "outbox.go",
		"return o.Tx.SetPhase(from, rec, store.PhaseAnswered, now)", "return o.Tx.SetPhase(from, rec, store.PhaseSettled, now)", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/horizon", "a record is settled at once", "outbox.go",
		"r.due = now + store.Horizon.Milliseconds()", "r.due = now + 1", "O2_ARecordPassesThroughItsPhases"),
	kernel("O2/kernel/settled", "a settled record is forgotten at once", "outbox.go",
		"return o.Tx.SetPhase(from, rec, store.PhaseSettled, now)", "return o.Tx.RemoveRecord(from, rec)", "O2_ARecordPassesThroughItsPhases"),
	memory("O2/memory/day", "an item of an outbox is forgotten after a day", "seen.go",
		"if !keep {", "if true {", "O2_AKeptItemIsRememberedForLongerThanADay"),
	memory("O2/memory/confirm", "Confirm forgets nothing", "seen.go",
		"delete(kept, id)", "", "O2_AKeptItemIsRememberedUntilConfirm"),
	memory("O2/memory/created-by", "a run does not remember the record that created it", "create.go",
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

	kernel("W3/kernel/applied", "a commit that was applied is not known again", "commit.go",
		"if c.Frame != nil && s.Last == c.CommitID {", "if false {", "W3_TheSameCommitIsAppliedOnce"),

	kernel("W4/kernel/fence-first", "a commit that was applied is fenced once the run has left", "commit.go",
		"if c.Frame != nil && s.Last == c.CommitID {", "if c.Frame != nil && s.Last == c.CommitID && s.Holds(c.Fence) {",
		"W3_TheSameCommitIsAppliedOnceWithEveryEffect"),
	kernel("W4/kernel/order", "the position is asked before the fence", "commit.go",
		"case !s.Holds(c.Fence): // [F1]", "case s.Last == c.Prev && !s.Holds(c.Fence):", "W4_AnOlderGuardAnswersBeforeAYoungerOne"),

	memory("K1/memory/queue-state", "a run that is claimed stays in the ready set", "tx.go",
		"p.leave(r)", "", "K1_ClaimNeverGivesARunTwice").behind("moved := s.QueueState != r.queueState"),
	kernel("K1/kernel/owner", "a run that is created owned wakes", "create.go",
		"err = o.grantNew(r, &s, owner, c)", "_ = o.makeReady(r, &s)\n\t\terr = o.grantNew(r, &s, owner, c)", "K1_ARunThatIsCreatedOwnedIsNotToBeClaimed"),

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
