package main

// sqlite returns a mutant of sqlitestore. The given behaviors of the conformance suite must kill
// it.
func sqlite(id, disabled, file, before, after string, behaviors ...string) Mutant {
	return Mutant{
		ID: id, Disabled: disabled, File: "sqlitestore/" + file, Old: before, New: after,
		Package: "sqlitestore", Tests: contract("TestConformance", behaviors),
	}
}

var sqliteMutants = []Mutant{

	sqlite("M1/sqlite/seen", "what is accepted is not remembered", "protocol.go",
		"`INSERT INTO seen VALUES (?, ?, ?, ?)`", "`SELECT ?, ?, ?, ?`", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	sqlite("M1/sqlite/inbox", "what is accepted is not in the inbox", "protocol.go",
		"`INSERT INTO inbox VALUES (?, ?, ?, ?, ?)`", "`SELECT ?, ?, ?, ?, ?`", "M1_WhatIsAcceptedIsInTheInboxAndSeen"),
	sqlite("M1/sqlite/unread", "what is still in the inbox is forgotten as seen", "protocol.go",
		" AND id NOT IN (SELECT id FROM inbox WHERE run = +?)", " AND run = +?", "M1_TheSameItemIsAcceptedOnceAlsoWhenItHasBeenRead"),

	sqlite("W5/sqlite/pause", "an outage counts as silence as long as it is", "session.go",
		"min(?1 - heard, ?2)", "?1 - heard + 0 * ?2", "W5_AnOutageOfTheStoreMakesNobodyDead"),

	sqlite("P1/sqlite/created-by", "a run is purged that may be created again", "purge.go",
		"const unneeded = `created_by IS NULL AND NOT EXISTS", "const unneeded = `NOT EXISTS", "P1_ARunIsNotPurgedBeforeItsCreationIsConfirmed"),
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
	sqlite("O2/sqlite/created-by", "a run does not remember the record that created it", "create.go",
		"createdBy: createdBy, child", "child", "O2_CreateKeepsCreatedByUntilConfirm"),

	sqlite("W1/sqlite/heartbeat", "a heartbeat creates a lease", "session.go",
		"l, err := t.live(id)", "_ = t.openSession(&store.Session{ID: id, TTL: time.Minute}, lock)\n\tl, err := t.live(id)", "W1_HeartbeatNeverCreatesALease").
		behind("func (t *tx) heartbeat("),
	sqlite("W1/sqlite/recovering", "a session that is being recovered is taken for live", "session.go",
		`(l == nil || l.reason != "")`, "(l == nil)").by("TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken"),

	sqlite("W2/sqlite/count", "a heartbeat does not tell how many runs are owned", "session.go",
		"Owned: int(owned)", "Owned: int(0 * owned)", "W2_HeartbeatTellsHowManyRunsAreOwned"),
	sqlite("W2/sqlite/unread", "a heartbeat does not name runs with unread items", "session.go",
		"WHERE owner = +? AND inbox > 0 /*", "WHERE owner = +? AND inbox < 0 /*", "W2_HeartbeatNamesRunsWithUnreadItems"),
	sqlite("W2/sqlite/fences", "Reconcile does not tell the fences", "session.go",
		"r.ColumnBytes(2, token[:])", "", "W2_ReconcileTellsTheOwnedRunsWithTheirFences"),

	sqlite("K2/sqlite/ready", "what is made ready wakes nobody", "protocol.go",
		"t.wake(r.route)", "_ = r", "K2_AStartWakesABlockedWait").behind("range changes.Ready"),
	sqlite("K2/sqlite/rest", "a claim does not announce what it leaves", "claim.go",
		"t.wake(route)", "", "K2_ClaimSetsTheWakeAgainForWhatItLeaves").behind("if left[route] {"),
	sqlite("K2/sqlite/one", "a wake that was given to a Wait stays set", "tx.go",
		"t.setWake(id, !taken)", "t.setWake(id, true || taken)", "EachWakeGoesToOneWait"),

	sqlite("K3/sqlite/wake", "an earlier due time wakes nobody", "protocol.go",
		"t.wake(r.route)", "", "K3_ParkWithTheEarliestDueTimeWakesTheRoute").behind("range changes.Due"),
	sqlite("K3/sqlite/claim", "a claim does not call Due", "claim.go",
		"due, err := t.makeDue(chores)", "due, err := t.makeDue(0)", "ClaimMakesDueRunsReady"),
	sqlite("K3/sqlite/full", "a claim of nothing does not call Due", "claim.go",
		"due, err := t.makeDue(chores)", "due, err := t.makeDue(min(chores, c.Max))", "AClaimOfNothingMakesDueRunsReadyForOthers"),

	sqlite("engine/sqlite/aside", "a claim meets the damaged page again and again", "damage.go",
		"!isDamage(err) || !s.setAside(ctx, lost, err)", "!isDamage(err) || lost != nil || true").by("TestREC10_BlockedRunsOfADamagedPageKeepNoOther"),
}
