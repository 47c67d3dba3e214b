package main

// sqlite is a mutant of sqlitestore that behaviours of the conformance suite are to
// kill.
func sqlite(id, disabled, file, before, after string, behaviors ...string) Mutant {
	return Mutant{
		ID: id, Disabled: disabled, File: "sqlitestore/" + file, Old: before, New: after,
		Package: "sqlitestore", Tests: contract("TestConformance", behaviors),
	}
}

var sqliteMutants = []Mutant{
	sqlite("F1/sqlite/epoch", "the epoch is not compared", "tx.go",
		" && r.epoch == f.Epoch", "", "F1_CommitNeedsEpochAndToken"),
	sqlite("F1/sqlite/token", "the token is not compared", "tx.go",
		" && r.token == f.Token", "", "F1_CommitNeedsEpochAndToken"),
	sqlite("F1/sqlite/nobody", "an empty token opens a run without an owner", "tx.go",
		"return r.place == store.PlaceOwned && ", "return ", "F1_AnEmptyTokenOpensNoRunWithoutAnOwner"),
	sqlite("F1/sqlite/release", "a release is not fenced", "release.go",
		"r == nil || !r.holds(fence)", "r == nil", "F1_ReleaseNeedsEpochAndToken"),
	sqlite("F1/sqlite/claim", "a claim does not count the epoch up", "place.go",
		"r.epoch++", "", "F1_EachClaimCountsTheEpochUp"),

	sqlite("F2/sqlite/recover", "a recovery leaves the epoch as it is", "recover.go",
		"r.epoch++", "", "F2_RecoverChangesTheFenceAtOnce"),
	sqlite("F2/sqlite/release", "a release leaves the epoch as it is", "release.go",
		"r.epoch++", "", "ReleaseMakesReadyUnderANewFence"),
	sqlite("F2/sqlite/owner", "a run that leaves its owner keeps the owner", "place.go",
		`r.place, r.owner, r.session, r.token = 0, 0, "", event.Token{}`, "r.place = 0", "F2_ParkFencesTheOwner"),

	sqlite("M1/sqlite/seen", "what is accepted is not remembered", "protocol.go",
		"`INSERT INTO seen VALUES (?, ?, ?, ?)`", "`SELECT ?, ?, ?, ?`", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	sqlite("M1/sqlite/inbox", "what is accepted is not in the inbox", "protocol.go",
		"`INSERT INTO inbox VALUES (?, ?, ?, ?, ?)`", "`SELECT ?, ?, ?, ?, ?`", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	sqlite("C2/sqlite/items", "a run is created without its items", "create.go",
		"range c.Items {", "range c.Items[:0] {", "C2_ARunHasTheItemsThatItIsCreatedWith"),
	sqlite("M1/sqlite/unread", "what is still in the inbox is forgotten as seen", "protocol.go",
		" AND id NOT IN (SELECT id FROM inbox WHERE run = +?)", " AND run = +?", "M1_TheSameItemIsAcceptedOnceAlsoWhenItHasBeenRead"),

	sqlite("W5/sqlite/pause", "an outage counts as silence as long as it is", "session.go",
		"min(?1 - heard, ?2)", "?1 - heard + 0 * ?2", "W5_AnOutageOfTheStoreMakesNobodyDead"),
	sqlite("B2/sqlite/code", "a blocked run is given to another session with the same code", "blocked.go",
		"return l.code == s.code", "return l.id == s.id", "B2_NoSessionWithTheSameCodeIsGivenIt"),

	sqlite("C1/sqlite/exists", "create does not ask whether the run exists", "create.go",
		"if known != 0 {", "if known < 0 {", "C1_CreateSentAgainIsTheSameRun"),
	sqlite("C1/sqlite/policy-first", "the policy is asked before whether the run exists", "create.go",
		"if known != 0 {", "if known != 0 && c.WorkflowID == \"\" {", "C1_CreateSentAgainIsAskedBeforeThePolicy"),
	sqlite("C1/sqlite/deleted", "a deleted run is created again", "create.go",
		"`SELECT key FROM runs WHERE id = +?`", "`SELECT key FROM runs WHERE id = +? AND hidden = 0`", "C1_CreateSentAgainAfterDeleteIsTheSameRun"),
	sqlite("C1/sqlite/active", "two runs of a workflow id are active", "create.go",
		"case w.active != 0:", "case false:", "C1_CreateUnderActiveUseAnswersTheActiveRun"),
	sqlite("C1/sqlite/line", "a successor does not wait in line", "create.go",
		"r.place = store.PlaceLined", "r.place = store.PlaceReady", "C1_CreateUnderActiveCancelWaitsInLine"),
	sqlite("C1/sqlite/owner-later", "a session owns a run that is for later", "create.go",
		"case due != 0:\n\t\treturn nil, refuse(store.ErrNotClaimable)", "", "ARunThatASessionWouldHaveToWaitForIsNotCreated"),
	sqlite("C1/sqlite/owner-line", "a run that is to be owned waits in line", "create.go",
		"if c.Owner != nil {\n\t\t\treturn store.Created{Err: store.ErrNotClaimable}, nil\n\t\t}", "", "ARunBehindAnActiveOneIsNotBornOwned"),
	sqlite("C1/sqlite/owner-over", "a run is created whose owner is over", "create.go",
		"l, err := t.live(c.Owner.Session)", "l, err := t.live(c.Owner.Session)\n\tif err != nil {\n\t\treturn nil, nil\n\t}", "ASessionThatIsOverBearsNothing"),
	sqlite("C1/sqlite/owner-again", "a create sent again is told of a fence that it has not", "create.go",
		" && r.holds(c.Owner.Fence())", "", "C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence"),

	sqlite("P1/sqlite/birth", "a run is purged that may be created again", "purge.go",
		"const unneeded = `birth IS NULL AND NOT EXISTS", "const unneeded = `NOT EXISTS", "P1_ARunIsNotPurgedBeforeItsBirthIsConfirmed"),
	sqlite("P1/sqlite/records", "a run is purged that has records to send", "purge.go",
		"WHERE sender = runs.key)", "WHERE sender = -1)", "P1_ASenderIsNotPurgedWhileItHasRecords"),
	sqlite("P1/sqlite/chain", "the first run of a chain is purged before the others", "purge.go",
		"AND (chain IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs later WHERE later.chain = runs.id))", "", "P1_TheFirstRunOfAChainIsPurgedAfterAllOthers"),

	sqlite("O1/sqlite/derived", "the same record is written twice", "outbox.go",
		"ON CONFLICT (sender, id) DO NOTHING", "ON CONFLICT (sender, id) DO UPDATE SET body = excluded.body, phase = 1, due = 0", "O1_ARecordThatIsThereStaysAsItIs"),
	sqlite("O1/sqlite/written", "records are not in the order in which they were written", "outbox.go",
		") ORDER BY o.seq LIMIT +?2`", ") ORDER BY o.seq DESC LIMIT +?2`", "O1_FreshRecordsAreReturnedInTheOrderInWhichTheyWereWritten"),
	sqlite("O1/sqlite/pair", "a record is settled before an earlier one of its pair", "outbox.go",
		"due := before.due", "due := before.due * 0", "O1_AnAnsweredRecordWaitsForTheEarlierOnesOfItsPair").
		by("TestOutbox_KeepsTheOrderOfAPairWhenTheClockIsSetBack"),

	sqlite("O2/sqlite/horizon", "a record is settled at once", "outbox.go",
		"due := now + store.Horizon.Milliseconds()", "due := now", "O2_ARecordPassesThroughItsPhases"),
	sqlite("O2/sqlite/day", "an item of an outbox is forgotten after a day", "protocol.go",
		"AND keep = 0 AND at", "AND at", "O2_AKeptItemIsRememberedForLongerThanADay"),
	sqlite("O2/sqlite/confirm", "Confirm forgets nothing", "protocol.go",
		"AND id = +? AND keep = 1`", "AND id = +? AND keep = 2`", "O2_AKeptItemIsRememberedUntilConfirm"),
	sqlite("O2/sqlite/birth", "a run does not remember the record that created it", "create.go",
		"createdBy: createdBy}", "}", "O2_CreateKeepsItsBirthUntilConfirm"),

	sqlite("W1/sqlite/heartbeat", "a heartbeat creates a lease", "session.go",
		"l, err := t.live(id)", "_ = t.openSession(&store.Session{ID: id, TTL: time.Minute}, lock)\n\tl, err := t.live(id)", "W1_HeartbeatNeverCreatesALease").
		behind("func (t *tx) heartbeat("),
	sqlite("W1/sqlite/recovering", "a session that is being recovered is taken for live", "session.go",
		`(l == nil || l.reason != "")`, "(l == nil)").by("TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken"),

	sqlite("W2/sqlite/count", "a heartbeat does not tell how many runs are owned", "session.go",
		"Owned: int(owned)", "Owned: int(0 * owned)", "W2_HeartbeatTellsHowManyRunsAreOwned"),
	sqlite("W2/sqlite/mail", "a heartbeat does not name runs with mail", "session.go",
		"WHERE owner = +? AND inbox > 0`", "WHERE owner = +? AND inbox < 0`", "W2_HeartbeatNamesRunsWithMailUntilItIsRead"),
	sqlite("W2/sqlite/fences", "Reconcile does not tell the fences", "session.go",
		"r.ColumnBytes(2, token[:])", "", "W2_ReconcileTellsTheOwnedRunsWithTheirFences"),

	sqlite("K1/sqlite/place", "a run that is claimed stays ready", "place.go",
		"r.place, r.owner, r.session, r.token = store.PlaceOwned, to.id,", "r.place, r.owner, r.session, r.token = store.PlaceReady, to.id,", "K1_ClaimNeverGivesARunTwice"),
	sqlite("K1/sqlite/owner", "a run that is born owned wakes", "create.go",
		"t.own(r, owner, c.Owner.Token)", "t.own(r, owner, c.Owner.Token)\n\t\tt.wake(r.class)", "K1_ARunThatIsBornOwnedIsNotToBeClaimed"),

	sqlite("K2/sqlite/ready", "what is made ready wakes nobody", "place.go",
		"t.wake(r.class)", "", "K2_AStartWakesABlockedWait").behind("r.place, r.ord = store.PlaceReady, ord"),
	sqlite("K2/sqlite/rest", "a claim does not announce what it leaves", "claim.go",
		"t.wake(class)", "", "K2_ClaimSetsTheWakeAgainForWhatItLeaves").behind("if left[class] {"),
	sqlite("K2/sqlite/one", "a wake that was given to a Wait stays set", "tx.go",
		"t.setWake(id, !taken)", "t.setWake(id, true || taken)", "EachWakeGoesToOneWait"),

	sqlite("K3/sqlite/wake", "an earlier due time wakes nobody", "place.go",
		"t.wake(r.class)", "", "K3_ParkWithTheEarliestDueTimeWakesTheClass").behind("if earliest == 0 || due < earliest {"),
	// One of the two ways in which a Wait hears of it is enough: the poller finds what
	// this process has not told within 10 ms.
	sqlite("K3/sqlite/tell", "those who wait are not told of an earlier due time", "hub.go",
		"if w.known == 0 || due < w.known {", "if w.known < 0 {", "K3_AnEarlierDueTimeEndsTheWait", "K3_AnEarlierDueTimeThatIsThereAlreadyEndsTheWait"),
	sqlite("K3/sqlite/claim", "a claim does not call Due", "claim.go",
		"if err := t.makeDue(chores); err != nil {", "if err := t.makeDue(0); err != nil {", "ClaimMakesDueRunsReady"),
	sqlite("K3/sqlite/full", "a claim of nothing does not call Due", "claim.go",
		"if err := t.makeDue(chores); err != nil {", "if err := t.makeDue(min(chores, c.Max)); err != nil {", "AClaimOfNothingMakesDueRunsReadyForOthers"),
}
