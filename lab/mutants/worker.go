package main

import "strings"

// working returns a mutant of the worker. The named tests of the worker must kill it. The file is
// in the worker's package unless its path contains a directory.
func working(id, disabled, file, before, after string, tests ...string) Mutant {
	m := Mutant{
		ID: id, Disabled: disabled, File: file, Old: before, New: after, Package: "runtime/worker", Tests: tests,
	}
	if !strings.Contains(file, "/") {
		m.File = "runtime/worker/" + file
	}
	return m
}

// reducing returns a mutant of the reducer of package runloop. The named tests of the worker must kill
// it.
func reducing(id, disabled, file, before, after string, tests ...string) Mutant {
	return working(id, disabled, "runtime/internal/runloop/"+file, before, after, tests...)
}

// in returns the mutant with tests in another package.
func (m Mutant) in(pkg string) Mutant {
	m.Package = pkg
	return m
}

// workerMutants disable the rules that the worker implements in addition to the store, and its own
// decisions.
var workerMutants = []Mutant{
	reducing("M4/worker/gives-none", "an ended run waits for room in its log for what comes too late", "inbox.go",
		"|| s.givesNone(&s.pending[0])) {", ") {", inMemory("TestFLOW5_ARunEndsThatHasReadAsMuchAsItsWorkerReadsAtOnce")).in("runtime/promises/flows").hanging(),

	reducing("F3/worker/unread", "after a refusal the next commit has the same cid again", "commit.go",
		"req.CommitID = s.driver.CommitID()", "req.CommitID = event.CommitID{1, byte(s.n)}", "TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID"),

	reducing("F4/worker/anything", "a cached run is resumed whatever its log", "react.go",
		"s.last == c.Last && s.n == c.N &&", "", "TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength"),
	reducing("F4/worker/count", "a cached run is resumed if its log is as long", "react.go",
		"s.last == c.Last && ", "", "TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength"),

	reducing("engine/worker/linger", "a run that is woken again and again is given back each time", "delay.go",
		"!s.soon || ", "true || ", "TestLinger_ARunThatIsWokenAgainAndAgainStaysWhereItIs"),
	reducing("engine/worker/linger-soon", "each run that waits stays, however rarely it is woken", "delay.go",
		"now.Sub(left) < releaseDelay", "true", "TestLinger_ARunThatStaysIsGivenBackWhenNothingComesForIt"),
	reducing("engine/worker/linger-end", "a run that stays leaves never", "delay.go",
		"!s.moment.Now.Before(until) || ", "", "TestLinger_ARunThatStaysIsGivenBackWhenNothingComesForIt").hanging(),
	reducing("engine/worker/linger-alarm", "nobody looks when the time of a run that stays is over", "proceed.go",
		"due = leaves", "_ = leaves", "TestLinger_ARunThatStaysIsGivenBackWhenNothingComesForIt").hanging(),
	reducing("engine/worker/linger-stop", "a run stays though the worker stops", "delay.go",
		" || s.moment.Stage >= Stopping", "", "TestLinger_ARunIsGivenBackWhenTheWorkerStops").hanging(),
	reducing("engine/worker/linger-permits", "a run stays with its permits", "delay.go",
		"len(f.Spec.Uses) > 0 || ", "", "TestLinger_ARunDoesNotStayWithWhatOthersMayNeed").hanging(),
	working("engine/worker/linger-places", "a run stays in the last place", "parked.go",
		" && 2*r.occupied() <= r.cfg.Runs", "", "TestLinger_ARunDoesNotStayWithWhatOthersMayNeed").hanging(),
	working("engine/worker/linger-queue", "a run stays in one of few places of its queue", "parked.go",
		" && r.cfg.AtOnce[in.queue] == 0", "", "TestLinger_ARunDoesNotStayWithWhatOthersMayNeed").hanging(),

	reducing("M1/worker/twice", "an item that is read again is received again", "inbox.go",
		"known || s.blocked != nil", "known && s.blocked != nil", "TestFLOW5_RunEndsUnderALoadOfMessagesAndLosesNone"),
	reducing("M3/worker/names", "a commit names no item that it consumes", "commit.go",
		"c.Req.Consume, c.Req.ConsumeLast = n, s.taken[n-1]", "c.Req.Consume = n", inMemory("TestFLOW5_MessagesAreKeptInOrderAlsoBeforeAnybodyWaits")).in("runtime/promises/flows").hanging(),
	reducing("M4/worker/inbox", "a run that may not leave does not read its inbox", "react.go",
		"s.refusedCommits++\n\t\ts.mustRead = true", "s.refusedCommits++", "TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID"),
	reducing("M4/worker/carry", "continue does not carry over what the code has not taken", "consequence.go",
		"events = append(events, event.Event{Type: e.Type, Name: e.Name, Item:", "_ = append(events, event.Event{Type: e.Type, Name: e.Name, Item:", "TestFLOW10_WhatTheCodeHasNotTakenIsCarriedOverInOrder").in("runtime/promises/flows"),
	reducing("M4/worker/carry-late", "continue does not carry over what came when the code had ended", "inbox.go",
		"s.carried = append(s.carried, *e)", "", "TestFLOW10_WhatComesBesideAnItemForTheOldRunAloneIsCarriedOver"),
	reducing("M4/worker/carry-cancel", "continue does not carry over a cancel that was not followed", "consequence.go",
		"if state.CancelRequested {", "if false {", "TestFLOW10_ACancelThatTheCodeDidNotFollowReachesTheNextRun").in("runtime/promises/flows"),
	reducing("M4/worker/unread", "the last event does not name what was never taken", "commit.go",
		"if last.Type.Terminal() {", "if false {", "TestFLOW5_NoAcceptedMessageIsLostWhenItRacesWithTheEnd").in("runtime/promises/flows"),
	reducing("M4/worker/closing", "a run that cannot end under a load of messages does not close its inbox", "commit.go",
		"if s.refusedCommits >= inboxPatience {", "if false {", "TestFLOW5_RunEndsUnderALoadOfMessagesAndLosesNone"),

	working("O1/worker/child", "a child that is asked for again is another run", "runtime/internal/replay/child.go",
		"event.DerivedRunID(b.run.id, key, slot)", "event.NewRunID(b.run.now, slot)", "TestO1_WhatIsAskedForAgainHasTheSameIDs"),
	working("O1/worker/start", "the record that starts a child has another id each time", "runtime/internal/effects/sends.go",
		`return event.DerivedItemID(run, "start:"+key)`, "return event.NewItemID()", "TestO1_WhatIsAskedForAgainHasTheSameIDs"),
	working("O1/worker/end", "the record that tells of a child's end has another id each time", "runtime/internal/effects/sends.go",
		`return event.DerivedItemID(run, "end")`, "return event.NewItemID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/frame", "the first frame of a child has another cid each time", "runtime/internal/effects/sends.go",
		`copy(cid[:], event.DerivedItemID(run, "created"))`, "cid = event.NewCommitID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/cancel", "the record that cancels a child has another id each time", "runtime/internal/effects/sends.go",
		`event.DerivedItemID(run, "cancel:"+string(child))`, "event.NewItemID()", "TestSends_AreTheSameHoweverOftenTheyAreMade").in("runtime/internal/effects"),
	working("O1/worker/pair", "a pair goes on behind a record that did not get through", "runtime/worker/internal/outbox/relay.go",
		"later = later || !r.holds.waits(heads[i])\n\t\t\t\tcontinue", "later = later || !r.holds.waits(heads[i])\n\t\t\t\tround[i] = &store.Mark{}", "TestO1_ARecordThatDoesNotGetThroughHoldsBackItsPair"),
	working("O1/worker/unknown", "what created a receiver that is unknown does not go first again", "runtime/worker/internal/outbox/relay.go",
		"m.Unknown = true", "m.Unknown = false", "TestO1_WhatCreatedAnUnknownReceiverIsSentAgain"),
	working("O1/worker/once", "records to a receiver that never was send one another for ever", "runtime/worker/internal/outbox/relay.go",
		"if _, tried := r.lost[p]; tried {", "if false {", "TestRelay_MessagesToARunThatNeverWasAreRefusedAll"),

	working("O1/worker/sent-again", "what did not get through at once is looked for when others are settled", "runtime/worker/internal/outbox/relay.go",
		"again = again || later || slices", "again = again || later && false || slices",
		"TestRelay_ReadsAgainWhatDidNotGetThrough").in("runtime/worker/internal/outbox"),
	working("O1/worker/sent-due", "what is sent puts off what is due before", "runtime/worker/internal/outbox/relay.go",
		"[]time.Time{r.holds.next(), r.due}", "[]time.Time{r.holds.next()}", "TestRelay_DeliversWhatACommitAnswersWithoutReadingIt").in("runtime/worker/internal/outbox"),
	working("O1/worker/sent-rest", "what a commit does not answer is not read", "runtime/worker/internal/outbox/relay.go",
		"if err != nil || !all && len(senders) == 0 {", "if err != nil || !all {", "TestRelay_ReadsWhatACommitDoesNotAnswer").in("runtime/worker/internal/outbox"),

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
	reducing("W2/worker/drop", "a run that the store says is not owned is not dropped", "react.go",
		"s.inflight == nil {\n\t\t\ts.lose(nil)", "s.inflight == nil {", "TestW2_RunThatIsOwnedNoMoreIsDropped"),
	working("W2/worker/unread", "unread items that a heartbeat names are not read", "runtime/worker/internal/lease/lease.go",
		"l.Owner.OnUnread(run)", "_ = run", "TestW2_ItemsThatNobodyWasToldOfAreReadAfterAHeartbeat"),

	working("W3/worker/repeat", "a commit without an answer is not sent again", "committer.go",
		"if store.Unknown(answer.Err) {", "if false {", "TestW3_TheSameBytesAreSentUntilThereIsAnAnswer"),
	reducing("W3/worker/one", "a run has several commits in flight", "proceed.go",
		"if s.inflight == nil && (s.moment.Alive", "if (s.moment.Alive", "TestW3_ARunHasOneCommitInFlight"),

	reducing("W4/worker/fenced", "a run that is fenced goes on as if nothing had been applied", "react.go",
		"s.warn(\"lost a run: its claim has ended\", \"run\", s.id)\n\t\ts.lose(nil)", "s.refusedCommits++",
		"TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots"),
	reducing("W4/worker/conflict", "a run with a conflict goes on with what it has in memory", "react.go",
		"s.warn(\"lost a race for a run: reading it again\", \"run\", s.id, \"error\", conflict)\n\t\ts.lose(&s.fence)", "_ = conflict\n\t\ts.refusedCommits++",
		"TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots"),

	working("K2/worker/stop", "a worker that stops keeps the wakes that it has taken", "claim.go",
		"defer c.handOn(claim)", "", "TestK2_WakeIsNotLostWhenTheWorkerStops"),
	working("K2/worker/session", "a wake is lost with the session", "claim.go",
		"case errors.Is(err, store.ErrExpired) && !renewed:", "case errors.Is(err, store.ErrExpired) && renewed:", "TestK2_WakeIsNotLostWithTheSession"),
	working("K2/worker/full", "a full worker forgets the wake that it has taken", "claim.go",
		"if delete(claim, s.Partition); a.full {", "if delete(claim, s.Partition); false {", "TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim"),

	working("K3/worker/busy", "a busy worker does not call Due", "claim.go",
		"a.next, a.err = c.store.Due(ctx, s.Partition, dueBatch)", "", "TestK3_ABusyWorkerCallsDueForOthers"),
	working("K3/worker/until", "a worker waits beyond the next due time that it knows", "claim.go",
		"if until := s.until(c.waitMost); until.Before(req.Until) {", "if until := s.until(c.waitMost); false && until.Before(req.Until) {", "TestK3_AWorkerWaitsUntilTheNextDueTimeItKnows"),

	working("K2/worker/cover", "a worker that is busy with others never claims from a partition whose wake was lost", "claim.go",
		"|| !s.asked.Add(rest).After(now)", "", "TestREC5_ABusyWorkerClaimsFromEachPartitionThoughAWakeIsLost"),

	reducing("engine/worker/commit-before-start", "a step starts before its start is durable", "attempts.go",
		"s.releases = append(s.releases, release{seq: seq, start: a})", "s.launch(a)", "TestEngine_NothingIsDoneBeforeItsCauseIsDurable"),
	reducing("engine/worker/cause-before-effect", "what is sent to others is not written with its cause", "commit.go",
		"req.Send = append(req.Send, folds[i].sends...)", "", "TestFLOW9_AChildReturnsItsTypedResult").in("runtime/promises/flows"),
	// The checks in launch and startSteps only save work. The guards are that an attempt waits for
	// a live lease, and that no record made without a live lease is committed.
	working("engine/worker/start-without-lease", "a step starts although the lease may be over", "runtime/worker/internal/lease/lease.go",
		"for !l.Alive(id) {", "for false {", "TestHeartbeat_AttemptThatWasHeldUpWaitsForALiveLease", "TestW2_AttemptIsNotBegunAfterTheClaimHasRunOut"),
	reducing("engine/worker/commit-without-lease", "something new is committed although the lease may be over", "proceed.go",
		"(s.moment.Alive || s.moment.Stage >= Stopping)", "true", "TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted"),
	working("engine/worker/lease-time", "a session lives on without an answer", "runtime/worker/internal/lease/lease.go",
		"return l.id != \"\" && !l.over && time.Since(l.renewed) < l.Expiry", "return l.id != \"\" && !l.over", "TestHeartbeat_WithoutAnswerNothingNewIsBegunOrCommitted"),
	working("engine/worker/late-answer", "a late answer prolongs the lease", "runtime/worker/internal/lease/lease.go",
		"l.renewed = sent", "l.renewed, _ = time.Now(), sent", "TestHeartbeat_AnswerThatComesLateDoesNotProlongTheClaim"),
	reducing("engine/worker/claim-over", "a step starts under a claim that is over", "react.go",
		"if s.next == nil {", "if true {", "TestF2_AttemptIsNotBegunUnderAClaimThatIsOver"),
	reducing("engine/worker/interrupted", "a step that is not idempotent runs again after its worker died", "attempts.go",
		"case plan.Spec.NonIdempotent:", "case false:", "TestSTEP7_ANonIdempotentStepWhoseWorkerDiedFailsInsteadOfRunningTwice").in("runtime/promises/steps"),
	reducing("engine/worker/timed-out", "a step that is not idempotent runs again after it timed out", "attempts.go",
		"case plan.Spec.NonIdempotent && f.Code == event.CodeTimeout:", "case false:", "TestSTEP7_ANonIdempotentStepThatTimesOutIsNotRepeated").in("runtime/promises/steps"),
	reducing("engine/worker/attempts", "attempts that died with their worker do not count", "attempts.go",
		"case o.Counted() >= plan.Retry.MaxAttempts():\n\t\tf.Message", "case false:\n\t\tf.Message", "TestSTEP2_StepsThatEveryWorkerLeavesUnendedUseUpTheirAttempts").in("runtime/promises/steps"),
	reducing("engine/worker/cancel-decides", "a step that fails after the cancel is tried again", "attempts.go",
		"case op.CancelWanted():\n\t\tf.Code", "case false:\n\t\tf.Code", "TestRUN8_AttemptsBeforeTheCancelAreCounted", "TestRUN8_CancelIsHonouredAtEverySuspensionPoint").in("runtime/promises/runs"),
	reducing("engine/worker/cancel-success", "a step that succeeds after the cancel loses its result", "attempts.go",
		"if out.Failure == nil {\n\t\tfor", "if out.Failure == nil && op.CancelWanted() {\n\t\tlate := failed(op.CancelCause(), event.CodeCanceled)\n\t\tout = &late\n\t}\n\tif out.Failure == nil {\n\t\tfor",
		"TestRUN8_AStepThatSucceedsAllTheSameKeepsItsResult").in("runtime/promises/runs"),
	reducing("engine/worker/cancel-durable", "a running step is not told of the cancel", "attempts.go",
		"s.stop(a, s.cancelCause(r.cancel))", "_ = a", "TestRUN8_CancelIsHonouredAtEverySuspensionPoint").in("runtime/promises/runs"),
	reducing("engine/worker/poison", "a run that kills its workers is executed for ever", "replay.go",
		"if s.recoveries >= s.Recoveries {", "if false {", "TestREC4_PoisonedRunListsTheMessagesThatWaited"),
	reducing("engine/worker/progress", "that an attempt was started counts as progress", "commit.go",
		"case event.StepPending, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived,", "case event.StepStarted, event.StepPending, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived,",
		"TestREC4_AnAttemptThatWasStartedIsNoProgress"),
	working("engine/worker/quarantine", "quarantined runs that wait are to blame for deaths", "quarantine.go",
		"n < e.cfg.Recoveries {", "n < 0 {", "TestREC4_ARunThatKillsItsWorkersTakesNobodyWithIt"),
	reducing("engine/worker/decode", "a log that ends elsewhere than the store says is replayed", "claim.go",
		"r.n != s.n || r.seq != s.seq || r.last != s.last", "r == nil", "TestDecode_LogThatEndsElsewhereThanTheStoreSaysBlocksTheRun"),
	reducing("engine/worker/chain", "frames need not continue one another", "claim.go",
		"if f.Prev != prev {", "if false {", "TestDecode_LogWhoseFramesDoNotContinueOneAnotherBlocksTheRun"),
	reducing("engine/worker/park-while-busy", "a run parks while its steps run", "commit.go",
		"case busy:\n\t\treturn store.EffectNone, time.Time{}", "", "TestFLOW1_BranchesShareVariablesWithoutLocks").in("runtime/promises/flows"),
	reducing("engine/worker/paused-steps", "a paused run begins a step that waited for a slot", "attempts.go",
		" || s.run.State().StandsStill() {", " {", "TestRUN12_APausedRunBeginsNoStepThatWaitsForASlot").in("runtime/promises/runs"),
	reducing("engine/worker/paused-parks", "a paused run keeps its place on a worker", "commit.go",
		"case s.run.State().StandsStill(): // no operation is due", "case false:", "TestRUN12_APausedRunBeginsNoStepThatWaitsForASlot").in("runtime/promises/runs"),
	reducing("engine/worker/rerun-bound", "a policy has a run tried again for ever", "outcome.go",
		"|| n >= policy.Attempts ||", "|| policy.Attempts == 0 ||", "TestRUN17_RerunsAreBoundedAndTheLastFailureStaysOpen").in("runtime/promises/reruns"),
	reducing("engine/worker/rerun-once", "a step that must happen once is executed again by a policy", "outcome.go",
		"case f.Unsure:", "case false:", "TestRUN17_WhatAnotherRunWouldNotMendIsNotTriedAgain").in("runtime/promises/reruns"),
	reducing("engine/worker/rerun-delay", "a rerun goes on before its time", "proceed.go",
		"&& !now.Before(f.Delayed) {", "{", "TestRUN17_AMessageInTheDelayIsRecordedAndStartsNothing").in("runtime/promises/reruns"),
	reducing("engine/worker/rerun-permits", "a rerun holds permits in its delay", "commit.go",
		"used := f.Run != event.StatePending && f.Delayed.IsZero(); {", "used := f.Run != event.StatePending; {", "TestRUN17_TheDelayHoldsNoPermits").in("runtime/promises/reruns"),
	working("engine/worker/rerun-refused", "a rerun that is refused for good is asked for again", "runtime/workflow/engine.go",
		"\t}\n\treturn err.Error(), nil", "\t}\n\treturn \"\", err", "TestRUN17_ARerunBesideAnActiveSingletonIsGivenUpWithAWarning").in("runtime/promises/reruns"),
	working("engine/worker/rerun-silent", "a rerun is given up without a word", "runtime/worker/internal/outbox/rerun.go",
		"case why != \"\":", "case false:", "TestRUN17_ARerunWhoseWorkflowIDIsTakenIsGivenUpWithAWarning").in("runtime/promises/reruns"),
	working("engine/worker/rerun-twice", "that a rerun is given up is logged as often as its record comes", "runtime/worker/internal/outbox/rerun.go",
		"r.fail(o, holdMost) // the hold", "// the hold", "TestRUN17_ARerunBesideAnActiveSingletonIsGivenUpWithAWarning").in("runtime/promises/reruns"),
	reducing("engine/worker/due", "a run parks without its due time", "commit.go",
		"\t}\n\treturn store.EffectPark, s.run.State().Due()", "\t}\n\treturn store.EffectPark, time.Time{}", "TestFLOW3_ASleepOfThirtyDaysSurvivesTheStopOfEveryWorker"),
	reducing("engine/worker/too-late", "a run begins that is too late for that", "proceed.go",
		"case !by.IsZero() && !now.Before(by):", "case false:", "TestRUN3_ARunThatNoWorkerHasBegunInTimeFailsWithoutItsCode").in("runtime/promises/runs"),
	working("engine/workflow/permits", "code begins before the permits that another run takes for it", "runtime/internal/flow/programs.go",
		"if spec.PermitSlot == 0 {\n\t\treturn nil\n", "if spec.PermitSlot < 1<<20 {\n\t\treturn nil\n", "TestPOOL2_RunsWithWorkflowIDsHoldTheirPermitsFromTheirCodesBeginToTheirEnds").in("runtime/promises/limits"),
	working("engine/workflow/permits-forged", "a message of anybody is taken for that of the permits", "runtime/internal/flow/programs.go",
		"case message.Item == grant(op.Next):", "case message != nil:", "TestPOOL2_AMessageOfSomebodyElseBringsNoPermits").in("runtime/promises/limits"),
	working("engine/workflow/permits-refused", "a run keeps permits for one that has ended", "runtime/internal/flow/programs.go",
		"if refused != nil {", "if refused = nil; refused != nil {", "TestPOOL2_APermitRunThatComesTooLateEnds").in("runtime/promises/limits"),
	reducing("engine/worker/held", "a run that is held begins", "proceed.go",
		"case f.Held() || f.Paused || f.Spec.StartAt.After(now):", "case f.Paused || f.Spec.StartAt.After(now):", "TestRUN9_AHeldRunBeginsWhenItIsReleasedAndItsFollowersMissNothing").in("runtime/promises/runs"),
	reducing("engine/worker/start-at", "a message starts a run before its time", "proceed.go",
		" || f.Spec.StartAt.After(now)", "", "TestRUN3_AMessageDoesNotStartARunBeforeItsTime").in("runtime/promises/runs"),
	reducing("engine/worker/blocked", "a run that the code does not fit goes on", "replay.go",
		"if err := s.replayCode(events, false); err != nil {", "if _ = s.replayCode(events, false); false {\n\t\tvar err error",
		"TestVER3_ARunOfAVersionThatTheCodeDoesNotHaveIsBlockedAndGoesOn").in("runtime/promises/flows"),
	reducing("engine/worker/child-end", "an end that the log does not expect is recorded", "inbox.go",
		"if s.run.State().Open(ref) == nil ||", "if", "TestEngine_TheEndOfAChildIsConsumedOnce"),
	reducing("engine/worker/ended-late", "a run ends while steps are under way, and tells nobody", "react.go",
		"s.dropAttempts(errEnded)", "s.attempts = nil", "TestEngine_AStepWhoseRunHasEndedIsToldSo"),

	working("engine/workflow/children-at-once", "a run has more children at once than it may", "runtime/workflow/child.go",
		"case open >= ctx.env().Children:", "case open >= ctx.env().Children+1<<30:", "TestFLOW9_TheLimitsGiveATypedErrorAndLoseNothing").in("runtime/promises/flows"),
	working("engine/workflow/children-in-all", "a run starts more children than it may", "runtime/workflow/child.go",
		"case all >= inAll:", "case all >= inAll+1<<30:", "TestFLOW9_ARunStartsNoMoreChildrenInAllThanItMay").in("runtime/promises/flows"),
	working("engine/workflow/generations", "runs start runs for ever", "runtime/workflow/child.go",
		"case b.Spec().Depth+1 > flow.MaxDepth:", "case b.Spec().Depth > flow.MaxDepth+5:", "TestFLOW9_NoRunIsDeeperThanTheLimit").in("runtime/promises/flows"),
	working("engine/workflow/canceled-child", "a child is started although the context has ended", "runtime/workflow/child.go",
		"if err := ctx.Err(); err != nil {\n\t\treturn fail(err)\n\t}", "", "TestFLOW9_NoChildIsStartedOnceTheContextHasEnded").in("runtime/promises/flows"),
	working("engine/workflow/result", "a result is shown before the run has ended", "runtime/workflow/handle.go",
		"if l.Record.QueueState == store.StateEnded {", "if l.Record.N > 1 {", "TestREC7_AStepThatTheStopEndedIsLeftToTheNextWorker"),

	working("engine/effects/abandon", "a child that should be left alone is cancelled with its parent", "runtime/internal/effects/sends.go",
		"return o.Close != event.CloseAbandon", "return true", "TestFLOW9_AnAbandonedChildOutlivesItsParent").in("runtime/promises/flows"),
	working("engine/effects/cancel", "the end of the parent leaves its children alone", "runtime/internal/effects/sends.go",
		"if o.Entity == event.EntityChild && ", "if false && ", "TestFLOW9_TheParentsEndClosesChildrenByPolicy").in("runtime/promises/flows"),
	working("engine/effects/continued", "a child that continues tells its parent that it has ended", "runtime/internal/effects/sends.go",
		`if e.Type == event.RunContinued || spec.Parent == "" {`, `if spec.Parent == "" {`, "TestFLOW9_AChildThatContinuesEndsWithItsLastRun").in("runtime/promises/flows"),
	working("engine/effects/scope", "the end of a child goes to what its parent continued as", "runtime/internal/effects/sends.go",
		"store.ScopeRun)", "store.ScopeChain)", "TestSends_TheEndOfAChildIsForTheRunThatStartedItAlone").behind("sendItem(EndID(run), ").in("runtime/internal/effects"),
}

// localStartMutants disable the guards of local starts. With these guards, a run that is created
// and begun by the same worker is as safe as a claimed run.
var localStartMutants = []Mutant{
	working("engine/worker/local-start-messages", "a worker takes a start that has messages", "worker.go",
		"len(c.Items) > 0 || ", "", "TestFLOW5_AStartHasItsMessagesBeforeTheCodeBegins/memory").in("runtime/promises/runs"),
	reducing("engine/worker/local-start-durable", "a run that is handed over begins its first step before it exists", "commit.go",
		"c.Create, c.Req.Status = true, event.StatusRunning", "c.Create, c.Req.Status = true, event.StatusRunning\n\ts.release(s.drafted())",
		"TestREC1_AHandedOverStepBeginsWhenItsRunIsDurable"),
	reducing("engine/worker/local-start-sends", "the first frame of a local start holds what goes to other runs", "commit.go",
		"|| len(s.folds) > 0 {", "|| len(s.folds) > 0 && len(s.folds[0].sends) == 0 {", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")).hanging(),
	reducing("engine/worker/local-start-ends", "the first frame of a local start ends the run", "commit.go",
		"s.unsaved[i].Type.Terminal() || s.fold", " s.fold", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")).hanging(),
	reducing("engine/worker/local-start-values", "the first frame of a local start holds publications", "commit.go",
		"|| len(s.folds) > 0 {", "|| len(s.folds) > 0 && len(s.folds[0].values) == 0 {", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")),
	working("engine/worker/local-start-refused", "a local start that the store refuses is the answer to its start", "committer.go",
		"errors.Is(a.Err, store.ErrExpired) || ", "", "TestRUN1_StartFallsBackWhenTheSessionIsOver"),
	reducing("engine/worker/local-start-seen", "a late answer of a reconciliation drops what was created since", "react.go",
		"s.claimSeq = claimSeq", "_ = claimSeq", "TestReconcile_ARunThatIsCreatedBeforeTheAnswerIsKept"),
	working("engine/worker/local-start-overtakes", "what is started on a worker overtakes what waits for it", "runs.go",
		"r.stopping.Load() || r.behind[claim.Partition]", "r.stopping.Load()", "TestRUN5_WhatIsHandedOverDoesNotOvertake"),
	reducing("engine/worker/local-start-late", "code for which a client has not waited is executed again", "react.go",
		" && s.continueCreated(c):", " && false:", "TestRUN1_StartDoesNotWaitForCodeThatHangs"),
	working("engine/workflow/local-start-patience", "whoever starts a run waits for code that hangs", "runtime/workflow/client.go",
		"if s.Withdraw() {", "if false {", "TestRUN1_StartDoesNotWaitForCodeThatHangs").hanging(),
}

// gatherMutants disable the guards of starts that share a run. With these guards, each start joins
// exactly one run, which no worker has claimed.
var gatherMutants = []Mutant{
	memory("L12/memory/last", "the first start counts, and not the last", "create.go",
		"r.inbox[0] = item", "_ = item", "L12_OnlyTheItemOfTheLastStartIsKept"),

	sqlite("L12/sqlite/joined", "a start that has joined is not remembered", "create.go",
		"`INSERT INTO joined VALUES (?, ?, ?)`", "`SELECT ?, ?, ?`", "L12_AStartJoinsOnce"),
	sqlite("L12/sqlite/last", "another item is replaced than that of the last start", "create.go",
		"(SELECT min(seq) FROM inbox", "(SELECT max(seq) FROM inbox", "L12_OnlyTheItemOfTheLastStartIsKept"),

	onRedis("L12/redis/joined", "a start is not asked whether it was here", "lua/collect.lua",
		"if joined then", "if false then", "L12_AStartJoinsOnce"),
	onRedis("L12/redis/claim", "a start joins a run that was claimed before", "lua/collect.lua",
		" and string.sub(m[1], 18, 25) == nobody then", " then", "L12_NothingJoinsWhatWasClaimedOnce"),
	onRedis("L12/redis/urgent", "a run that is asked to end gathers on", "lua/part/push.lua",
		"if collects and urgent then", "if false then", "L12_NothingJoinsWhatIsAskedToEnd"),
	onRedis("L12/redis/key", "a key leads to its run for ever", "lua/commit.lua",
		"if o[9] then", "if false then").by("TestGather_LeavesNothingOfAKeyOnceItsRunHasEnded"),
}
