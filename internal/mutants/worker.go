package main

import "strings"

// working returns a mutant of the worker, or of its parts, that tests of the
// worker must kill. The file is in the worker's package unless it names another.
func working(id, disabled, file, before, after string, tests ...string) Mutant {
	m := Mutant{
		ID: id, Disabled: disabled, File: file, Old: before, New: after, Package: "runtime/worker", Tests: tests,
	}
	if !strings.Contains(file, "/") {
		m.File = "runtime/worker/" + file
	}
	return m
}

// in names another package whose tests must kill the mutant.
func (m Mutant) in(pkg string) Mutant {
	m.Package = pkg
	return m
}

// workerMutants break the rules that the worker adds, and its own decisions.
var workerMutants = []Mutant{
	working("F3/worker/unread", "after a refusal the next commit has the same cid again", "nextcommit.go",
		"req.CommitID = event.NewCommitID()", "req.CommitID = event.CommitID{1, byte(d.n)}", "TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID"),

	working("F4/worker/anything", "a cached run is resumed whatever its log", "handle.go",
		"t.last == c.Last && t.n == c.N &&", "", "TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength"),
	working("F4/worker/count", "a cached run is resumed if its log is as long", "handle.go",
		"t.last == c.Last && ", "", "TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength"),

	working("M1/worker/twice", "an item that is read again is received again", "inbox.go",
		"known || b.blocked != nil", "known && b.blocked != nil", "TestFLOW5_RunEndsUnderALoadOfMessagesAndLosesNone"),
	working("M3/worker/names", "a commit names no item that it consumes", "nextcommit.go",
		"c.req.Consume, c.req.ConsumeLast = n, d.inbox.taken[n-1]", "c.req.Consume = n", inMemory("TestFLOW5_MessagesAreKeptInOrderAlsoBeforeAnybodyWaits")).in("runtime/promises/flows").hanging(),
	working("M4/worker/inbox", "a run that may not leave does not read its inbox", "oncommit.go",
		"t.inbox.refused++\n\t\tt.inbox.wanted = true", "t.inbox.refused++", "TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID"),
	working("M4/worker/carry", "continue does not carry over what the code has not taken", "nextcommit.go",
		"events = append(events, event.Event{Type: e.Type, Name: e.Name, Item:", "_ = append(events, event.Event{Type: e.Type, Name: e.Name, Item:", "TestFLOW10_WhatTheCodeHasNotTakenIsCarriedOverInOrder").in("runtime/promises/flows"),
	working("M4/worker/carry-late", "continue does not carry over what came when the code had ended", "inbox.go",
		"b.carried = append(b.carried, *e)", "", "TestFLOW10_WhatComesBesideAnItemForTheOldRunAloneIsCarriedOver"),
	working("M4/worker/carry-cancel", "continue does not carry over a cancel that was not followed", "nextcommit.go",
		"if state.CancelRequested {", "if false {", "TestFLOW10_ACancelThatTheCodeDidNotFollowReachesTheNextRun").in("runtime/promises/flows"),
	working("M4/worker/unread", "the last event does not name what was never taken", "nextcommit.go",
		"if last.Type.Terminal() {", "if false {", "TestFLOW5_NoAcceptedMessageIsLostWhenItRacesWithTheEnd").in("runtime/promises/flows"),
	working("M4/worker/closing", "a run that cannot end under a load of messages does not close its inbox", "nextcommit.go",
		"if d.inbox.refused >= inboxPatience {", "if false {", "TestFLOW5_RunEndsUnderALoadOfMessagesAndLosesNone"),

	working("O1/worker/child", "a child that is asked for again is another run", "runtime/internal/replay/child.go",
		"event.DerivedRunID(r.id, asked.Key, slot)", "event.NewRunID(r.now, slot)", "TestO1_WhatIsAskedForAgainHasTheSameIDs"),
	working("O1/worker/start", "the record that starts a child has another id each time", "runtime/internal/effects/sends.go",
		`return event.DerivedItemID(run, "start:"+key)`, "return event.NewItemID()", "TestO1_WhatIsAskedForAgainHasTheSameIDs"),
	working("O1/worker/end", "the record that tells of a child's end has another id each time", "runtime/internal/effects/sends.go",
		`return event.DerivedItemID(run, "end")`, "return event.NewItemID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/frame", "the first frame of a child has another cid each time", "runtime/internal/effects/sends.go",
		`copy(cid[:], event.DerivedItemID(e.Next, "created"))`, "cid = event.NewCommitID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/cancel", "the record that cancels a child has another id each time", "runtime/internal/effects/sends.go",
		`event.DerivedItemID(run, "cancel:"+string(child))`, "event.NewItemID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/pair", "a pair goes on behind a record that did not get through", "runtime/worker/internal/outbox/relay.go",
		"later = later || !r.holds.waits(heads[i])\n\t\t\t\tcontinue", "later = later || !r.holds.waits(heads[i])\n\t\t\t\tround[i] = &store.Mark{}", "TestO1_ARecordThatDoesNotGetThroughHoldsBackItsPair"),
	working("O1/worker/unknown", "what created a receiver that is unknown does not go first again", "runtime/worker/internal/outbox/relay.go",
		"m.Unknown = true", "m.Unknown = false", "TestO1_WhatCreatedAnUnknownReceiverIsSentAgain"),
	working("O1/worker/once", "records to a receiver that never was send one another for ever", "runtime/worker/internal/outbox/relay.go",
		"if _, tried := r.lost[p]; tried {", "if false {", "TestRelay_MessagesToARunThatNeverWasAreRefusedAll"),

	working("O2/worker/confirm", "a settled record is removed without Confirm", "runtime/worker/internal/outbox/relay.go",
		"r.Store.Confirm(ctx, o.To, o.ID)", "ctx.Err()", "TestO2_EveryRecordIsSettledConfirmedAndGone"),
	working("O2/worker/settle", "a record that was answered is not sent again", "runtime/worker/internal/outbox/relay.go",
		"marks[i] = r.deliver(ctx, o, p)", "if marks[i] = mark(o); o.Phase == store.PhaseFresh {\n\t\t\t\t\tmarks[i] = r.deliver(ctx, o, p)\n\t\t\t\t}",
		"TestO2_EveryRecordIsSettledConfirmedAndGone"),
	working("O2/worker/failed", "a record that did not get through counts as answered", "runtime/worker/internal/outbox/relay.go",
		"r.failed(ctx, o, err)\n\t\treturn nil", "r.failed(ctx, o, err)", "TestO1_ARecordThatDoesNotGetThroughHoldsBackItsPair").behind("case errors.Is(err, store.ErrLater), errors.Is(err, store.ErrStale):"),
	working("O2/worker/keep", "what an outbox delivers is not kept until Confirm", "runtime/internal/effects/outboxmessage.go",
		"Keep: true", "Keep: false", "TestDeliver_IsKeptUntilConfirm").in("runtime/internal/effects"),
	working("O2/worker/created-by", "a child does not know the record that created it", "runtime/internal/effects/outboxmessage.go",
		"CreatedBy: o.ID, ", "", "TestCreate_IsWhatTheFirstFrameSays").in("runtime/internal/effects"),
	working("O2/worker/deadline", "a delivery of an outbox may be late", "runtime/internal/effects/outboxmessage.go",
		"Deadline: o.Deadline, Keep", "Keep", "TestDeliver_IsKeptUntilConfirm").in("runtime/internal/effects"),

	working("W1/worker/expired", "an expired session drops nothing", "runtime/worker/internal/lease/lease.go",
		"l.Owner.OnLost(l.Partition)", "", "TestW1_AnExpiredSessionDropsItsRunsAtOnce"),
	working("W1/worker/same-id", "the new session has the id of the old one", "runtime/worker/internal/lease/lease.go",
		`id := store.SessionID(l.Worker + "/" + event.NewToken().String())`, "id := store.SessionID(l.Worker)", "TestW1_EverySessionHasAnIDOfItsOwn"),

	working("W2/worker/compare", "a heartbeat does not compare the runs that are owned", "runtime/worker/internal/lease/lease.go",
		"claiming == 0 && answer.Owned != len(l.Owner.Owned(l.Partition))", "claiming < 0 && answer.Owned != len(l.Owner.Owned(l.Partition))", "TestW2_RunThatWasGrantedWithoutAnAnswerIsGivenBack"),
	working("W2/worker/drop", "a run that the store says is not owned is not dropped", "handle.go",
		"t.inflight == nil {\n\t\t\tt.lose(nil)", "t.inflight == nil {", "TestW2_RunThatIsOwnedNoMoreIsDropped"),
	working("W2/worker/unread", "unread items that a heartbeat names are not read", "runtime/worker/internal/lease/lease.go",
		"l.Owner.OnUnread(run)", "_ = run", "TestW2_ItemsThatNobodyWasToldOfAreReadAfterAHeartbeat"),

	working("W3/worker/repeat", "a commit without an answer is not sent again", "committer.go",
		"if store.Unknown(answer.Err) {", "if false {", "TestW3_TheSameBytesAreSentUntilThereIsAnAnswer"),
	working("W3/worker/one", "a run has several commits in flight", "handle.go",
		"if t.inflight == nil && (t.alive()", "if (t.alive()", "TestW3_ARunHasOneCommitInFlight"),

	working("W4/worker/fenced", "a run that is fenced goes on as if nothing had been applied", "oncommit.go",
		"t.log.Warn(\"lost a run: its claim is gone\", \"run\", t.id)\n\t\tt.lose(nil)", "t.unread.refused++",
		"TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots"),
	working("W4/worker/conflict", "a run with a conflict goes on with what it has in memory", "oncommit.go",
		"t.log.Warn(\"lost a race for a run: reading it again\", \"run\", t.id, \"error\", conflict)\n\t\tt.lose(&t.fence)", "_ = conflict\n\t\tt.unread.refused++",
		"TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots"),

	working("K2/worker/stop", "a worker that stops keeps the wakes that it has taken", "claim.go",
		"defer c.handOn(claim)", "", "TestK2_WakeIsNotLostWhenTheWorkerStops"),
	working("K2/worker/session", "a wake is lost with the session", "claim.go",
		"case errors.Is(err, store.ErrExpired) && !renewed:", "case errors.Is(err, store.ErrExpired) && renewed:", "TestK2_WakeIsNotLostWithTheSession"),
	working("K2/worker/full", "a full worker forgets the wake that it has taken", "claim.go",
		"!a.full {", "a.full || !a.full {", "TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim"),

	working("K3/worker/busy", "a busy worker does not call Due", "claim.go",
		"next, err = c.store.Due(ctx, s.Partition, dueBatch)", "", "TestK3_ABusyWorkerCallsDueForOthers"),
	working("K3/worker/until", "a worker waits beyond the next due time that it knows", "claim.go",
		"if !t.IsZero() && t.Before(until) && ", "if false && ", "TestK3_AWorkerWaitsUntilTheNextDueTimeItKnows"),

	working("engine/worker/commit-before-start", "a step starts before its start is durable", "stepping.go",
		"s.starts = append(s.starts, a)", "s.launch(a)", "TestEngine_NothingIsDoneBeforeItsCauseIsDurable"),
	working("engine/worker/cause-before-effect", "what is sent to others is not written with its cause", "nextcommit.go",
		"req.Send, err = d.sends(events)", "_, err = d.sends(events)", "TestFLOW9_AChildReturnsItsTypedResult").in("runtime/promises/flows"),
	// That launch and startSteps ask, too, saves work: the attempt itself waits for a
	// live lease, and nothing that was recorded without one is committed.
	working("engine/worker/start-without-lease", "a step starts although the lease may be over", "runtime/worker/internal/lease/lease.go",
		"for !l.Alive(id) {", "for false {", "TestHeartbeat_AttemptThatWasHeldUpWaitsForALiveLease", "TestW2_AttemptIsNotBegunAfterTheClaimHasRunOut"),
	working("engine/worker/commit-without-lease", "something new is committed although the lease may be over", "handle.go",
		"(t.alive() || t.stopping.Load())", "true", "TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted"),
	working("engine/worker/lease-time", "a session lives on without an answer", "runtime/worker/internal/lease/lease.go",
		"return l.id == id && !l.over && time.Since(l.renewed) < l.Expiry", "return l.id == id && !l.over", "TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted"),
	working("engine/worker/late-answer", "a late answer prolongs the lease", "runtime/worker/internal/lease/lease.go",
		"l.renewed = sent", "l.renewed, _ = time.Now(), sent", "TestHeartbeat_AnswerThatComesLateDoesNotProlongTheClaim"),
	working("engine/worker/claim-over", "a step starts under a claim that is over", "oncommit.go",
		"if t.next != nil {", "if false {", "TestF2_AttemptIsNotBegunUnderAClaimThatIsOver"),
	working("engine/worker/interrupted", "a step that is not idempotent runs again after its worker died", "stepping.go",
		"case plan.Spec.NonIdempotent:", "case false:", "TestSTEP7_InterruptedNonIdempotentStepFailsInsteadOfRunningTwice").in("runtime/promises/steps"),
	working("engine/worker/timed-out", "a step that is not idempotent runs again after it timed out", "stepping.go",
		"case plan.Spec.NonIdempotent && f.Code == event.CodeTimeout:", "case false:", "TestSTEP7_ANonIdempotentStepThatTimesOutIsNotRepeated").in("runtime/promises/steps"),
	working("engine/worker/attempts", "attempts that died with their worker do not count", "stepping.go",
		"case o.Counted() >= workflow.RetryPolicy(plan.Retry).MaxAttempts():\n\t\tf.Message", "case false:\n\t\tf.Message", "TestSTEP2_StepsThatEveryWorkerLeavesUnendedUseUpTheirAttempts").in("runtime/promises/steps"),
	working("engine/worker/cancel-decides", "a step that fails after the cancel is tried again", "stepping.go",
		"case op.CancelWanted():\n\t\tf.Code", "case false:\n\t\tf.Code", "TestRUN8_AttemptsBeforeTheCancelAreCounted", "TestRUN8_CancelIsHonouredAtEverySuspensionPoint").in("runtime/promises/runs"),
	working("engine/worker/cancel-success", "a step that succeeds after the cancel loses its result", "stepping.go",
		"if out.failure == nil {\n\t\tfor", "if out.failure == nil && op.CancelWanted() {\n\t\tlate := failed(op.CancelCause(), event.CodeCanceled)\n\t\tout = &late\n\t}\n\tif out.failure == nil {\n\t\tfor",
		"TestRUN8_AStepThatSucceedsAllTheSameKeepsItsResult").in("runtime/promises/runs"),
	working("engine/worker/cancel-durable", "a running step is not told of the cancel", "stepping.go",
		"a.stop(s.cancelCause(ref))", "_ = a", "TestRUN8_CancelIsHonouredAtEverySuspensionPoint").in("runtime/promises/runs"),
	working("engine/worker/poison", "a run that kills its workers is executed for ever", "replay.go",
		"if t.recoveries >= t.cfg.Recoveries {", "if false {", "TestREC4_PoisonedRunListsTheMessagesThatWaited"),
	working("engine/worker/progress", "that an attempt was started counts as progress", "nextcommit.go",
		"case event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived,", "case event.StepStarted, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived,",
		"TestREC4_AnAttemptThatWasStartedIsNoProgress"),
	working("engine/worker/quarantine", "quarantined runs that wait are to blame for deaths", "quarantine.go",
		"n < e.cfg.Recoveries {", "n < 0 {", "TestREC4_ARunThatKillsItsWorkersTakesNobodyWithIt"),
	working("engine/worker/decode", "a log that ends elsewhere than the store says is replayed", "logend.go",
		"uint64(len(frames)) != l.n || last != l.seq || prev != l.last", "false", "TestDecode_LogThatEndsElsewhereThanTheStoreSaysBlocksTheRun"),
	working("engine/worker/chain", "frames need not continue one another", "logend.go",
		"if f.Prev != prev {", "if false {", "TestDecode_LogWhoseFramesDoNotContinueOneAnotherBlocksTheRun"),
	working("engine/worker/park-while-busy", "a run parks while its steps run", "nextcommit.go",
		"case busy:\n\t\treturn store.EffectNone, time.Time{}", "", "TestFLOW1_BranchesShareVariablesWithoutLocks").in("runtime/promises/flows"),
	working("engine/worker/due", "a run parks without its due time", "nextcommit.go",
		"return store.EffectPark, d.run.State().Due()", "return store.EffectPark, time.Time{}", "TestFLOW3_ASleepOfThirtyDaysSurvivesTheStopOfEveryWorker"),
	working("engine/worker/held", "a run that is held begins", "execution.go",
		"case f.Held() || f.Paused || f.Spec.StartAt.After(now):", "case f.Paused || f.Spec.StartAt.After(now):", "TestRUN9_AHeldRunBeginsWhenItIsReleasedAndItsFollowersMissNothing").in("runtime/promises/runs"),
	working("engine/worker/start-at", "a message starts a run before its time", "execution.go",
		" || f.Spec.StartAt.After(now)", "", "TestRUN3_AMessageDoesNotStartARunBeforeItsTime").in("runtime/promises/runs"),
	working("engine/worker/blocked", "a run that the code does not fit goes on", "replay.go",
		"t.exec.inUserCode(func() { err = t.run.Replay(events) })\n\tif err != nil {", "t.exec.inUserCode(func() { err = t.run.Replay(events) })\n\tif false {",
		"TestVER3_ARunOfAVersionThatTheCodeDoesNotHaveIsBlockedAndGoesOn").in("runtime/promises/flows"),
	working("engine/worker/child-end", "an end that the log does not expect is recorded", "inbox.go",
		"if b.run.State().Open(ref) == nil ||", "if", "TestEngine_TheEndOfAChildIsConsumedOnce"),
	working("engine/worker/ended-late", "a run ends while steps are under way, and tells nobody", "oncommit.go",
		"t.stepping.drop(errEnded)", "t.stepping.attempts = nil", "TestEngine_AStepWhoseRunHasEndedIsToldSo"),

	working("engine/workflow/children-at-once", "a run has more children at once than it may", "runtime/workflow/child.go",
		"case open >= ctx.env.children:", "case open >= ctx.env.children+1<<30:", "TestFLOW9_TheLimitsGiveATypedErrorAndLoseNothing").in("runtime/promises/flows"),
	working("engine/workflow/children-in-all", "a run starts more children than it may", "runtime/workflow/child.go",
		"case all >= inAll:", "case all >= inAll+1<<30:", "TestFLOW9_ARunStartsNoMoreChildrenInAllThanItMay").in("runtime/promises/flows"),
	working("engine/workflow/generations", "runs start runs for ever", "runtime/workflow/child.go",
		"case b.Spec().Depth+1 > MaxDepth:", "case b.Spec().Depth > MaxDepth+5:", "TestFLOW9_NoRunIsDeeperThanTheLimit").in("runtime/promises/flows"),
	working("engine/workflow/canceled-child", "a child is started although the context has ended", "runtime/workflow/child.go",
		"if err := ctx.Err(); err != nil {\n\t\treturn fail(err)\n\t}", "", "TestFLOW9_NoChildIsStartedOnceTheContextHasEnded").in("runtime/promises/flows"),
	working("engine/workflow/result", "a result is shown before the run has ended", "runtime/workflow/handle.go",
		"if l.Record.QueueState == store.StateEnded {", "if l.Record.N > 1 {", "TestREC7_AStepThatTheStopEndedIsLeftToTheNextWorker"),

	working("engine/effects/abandon", "a child that should be left alone is cancelled with its parent", "runtime/internal/effects/sends.go",
		" && o.Close != event.CloseAbandon", "", "TestFLOW9_AnAbandonedChildOutlivesItsParent").in("runtime/promises/flows"),
	working("engine/effects/cancel", "the end of the parent leaves its children alone", "runtime/internal/effects/sends.go",
		"if o.Entity == event.EntityChild && ", "if false && ", "TestFLOW9_TheParentsEndClosesChildrenByPolicy").in("runtime/promises/flows"),
	working("engine/effects/continued", "a child that continues tells its parent that it has ended", "runtime/internal/effects/sends.go",
		`if e.Type == event.RunContinued || spec.Parent == "" {`, `if spec.Parent == "" {`, "TestFLOW9_AChildThatContinuesEndsWithItsLastRun").in("runtime/promises/flows"),
	working("engine/effects/scope", "the end of a child goes to what its parent continued as", "runtime/internal/effects/sends.go",
		"store.ScopeRun)", "store.ScopeChain)", "TestSends_TheEndOfAChildIsForTheRunThatStartedItAlone").behind("sendItem(EndID(run), ").in("runtime/internal/effects"),
}
