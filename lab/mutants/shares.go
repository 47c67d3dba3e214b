package main

// shareOnRedis returns a mutant of the fair distribution of permits in the Redis scripts.
func shareOnRedis(what, disabled, file, before, after string, behaviors ...string) Mutant {
	return onRedis("limits/redis/share-"+what, disabled, "lua/"+file, before, after, behaviors...)
}

func localOnRedis(what, disabled, file, before, after string, behaviors ...string) Mutant {
	return onRedis("limits/redis/local-"+what, disabled, "lua/"+file, before, after, behaviors...)
}

// standing returns a mutant of the order of limiter queues in the code that all stores except Redis
// share.
func standing(id, disabled, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, "", before, after, behaviors...)
	m.File = "runtime/store/limit.go"
	return m
}

// ownLimit returns a mutant of the counter that a worker keeps for each of its local limits.
func ownLimit(what, disabled, before, after, test string) Mutant {
	return working("limits/worker/"+what, disabled, "runtime/worker/capacity.go", before, after, inMemory(test)).in("runtime/promises/limits").hanging()
}

// shareMutants disable the order of fairness keys and the local limits of workers.
var shareMutants = []Mutant{
	memory("limits/memory/share-arrival", "the order of arrivals runs away from the passes", "limit.go",
		"t.p.order++", "t.p.order += store.Pace", "Shares_KeysThatAlwaysWaitDoNotKeepARunWithoutAKey"),
	memory("limits/memory/share-order", "runs with fair keys come before all others", "ready.go",
		"(first == nil || fair.order < first.order)", "true", "Shares_ARunWithoutAKeyGoesByItsArrival"),
	memory("limits/memory/share-sweep", "passes of keys that are over are kept", "limit.go",
		"if pass <= f.Pass {", "if pass < 0 {").by("TestShares_PassesThatAreOverAreForgotten"),
	memory("limits/memory/share-over", "passes of keys that have runs are forgotten", "limit.go",
		"if pass <= f.Pass {", "if pass >= 0 {", "Shares_AKeyGoesOnWhereItWasThoughManyOthersPassBy"),
	sqlite("limits/sqlite/share-flow", "the passes of a flow in which nobody waits are kept", "limit.go",
		"`DELETE FROM passes WHERE class = +? AND priority = +?`", "`DELETE FROM passes WHERE class = +? AND priority = +? AND 0`").by("TestShares_PassesThatAreOverAreForgotten"),
	sqlite("limits/sqlite/share-sweep", "passes of keys that are over are kept", "limit.go",
		"pass <= (SELECT pass", "pass < 0 AND pass <= (SELECT pass").by("TestShares_PassesThatAreOverAreForgotten"),
	sqlite("limits/sqlite/share-over", "passes of keys that have runs are forgotten", "limit.go",
		"AND pass <= (SELECT pass FROM flows WHERE class = +?1 AND priority = +?2)", "", "Shares_AKeyGoesOnWhereItWasThoughManyOthersPassBy"),

	shareOnRedis("pass", "each run of a key begins at the present pass", "part/share.lua",
		"if pass > at then", "if false then", "Shares_ABacklogDelaysNobodyElse"),
	shareOnRedis("present", "who comes begins where the first of all began", "part/share.lua",
		"math.max(f.pass, math.min(f.last + 1, f.pass + pace / 8))", "math.min(f.last + 1, f.pass + pace / 8)", "Shares_WhoWasAwayGetsNothingForIt"),
	shareOnRedis("serve", "the present pass stays where it was", "part/share.lua",
		"f.pass = math.max(f.pass, (tonumber(served, 16) or 0) + 1)", "", "Shares_WhoWasAwayGetsNothingForIt"),
	shareOnRedis("first", "keys that come for the first time have one place", "part/share.lua",
		"math.max(f.pass, math.min(f.last + 1, f.pass + pace / 8))", "f.pass", "Shares_KeysThatComeForTheFirstTimeGoInTheirOrder"),
	shareOnRedis("weight", "all shares are the same", "part/share.lua",
		"(pace + math.floor(share / 2)) / share", "pace", "Shares_AreByWeight"),
	shareOnRedis("keeps-place", "who has lost its owner comes anew", "part/share.lua",
		"if place == '' then", "if true then", "Shares_ARecoveryKeepsItsPlaceAYieldComesAnew"),
	shareOnRedis("forgets", "passes of keys that are over are kept", "part/share.lua",
		"intact('ZREMRANGEBYSCORE', f.passes, '-inf', string.format('%.0f', f.pass))", "").by("TestShares_PassesThatAreOverAreForgotten"),
	shareOnRedis("over", "passes of keys that have runs are forgotten", "part/share.lua",
		"'-inf', string.format('%.0f', f.pass))", "'-inf', '+inf')", "Shares_AKeyGoesOnWhereItWasThoughManyOthersPassBy"),
	shareOnRedis("flow", "the passes of a flow in which nobody waits are kept", "part/share.lua",
		"redis.call('UNLINK', f.passes)", "").by("TestShares_PassesThatAreOverAreForgotten"),
	shareOnRedis("called-off", "who was called off has a turn again when its worker dies", "part/join.lua",
		"elseif l.off then\n    l.place = ''\n    return\n  end", "end", "Shares_ACanceledWaiterHasNoTurnAgain"),
	shareOnRedis("leaves", "who is canceled in line is counted on", "part/join.lua",
		"leave_fair_key(route, priority and 0 - priority or 0, 1, '')", "", "Shares_ACanceledWaiterLeavesItsFlow"),
	shareOnRedis("begins", "who is canceled in line takes the present pass along", "part/join.lua",
		"leave_fair_key(route, priority and 0 - priority or 0, 1, '')", "leave_fair_key(route, priority and 0 - priority or 0, 1, l.place)", "Shares_WhoIsCanceledMovesNobody"),
	shareOnRedis("blocked", "what is blocked by a claim is counted on", "part/take.lua",
		"leaves(m[2], score, place, false)", "", "Shares_WhatIsBlockedLeavesItsFlow"),
	shareOnRedis("claimed", "the last run of a claim does not move the present pass", "part/take.lua",
		"if begins and place > f.served then", "if begins and f.served == '' then", "Shares_AClaimOfManyCountsAsSoManyTurns"),
	shareOnRedis("by-name", "who is claimed by name is counted on", "claim_run.lua",
		"leave_fair_key(route, 0 - (m[5] or 0), 1, l.place)", "", "Shares_WhoIsClaimedByNameLeavesItsFlow"),
	shareOnRedis("came", "who comes without a key passes who came before it", "part/share.lua",
		"if at > came then", "if false then", "Shares_ARunWithoutAKeyGoesByItsArrival"),
	shareOnRedis("arrival", "the order of arrivals runs away from the passes", "part/share.lua",
		"intact('INCR', tag .. 'c') or 0", "intact('INCRBY', tag .. 'c', pace) or 0", "Shares_KeysThatAlwaysWaitDoNotKeepARunWithoutAKey"),
	shareOnRedis("owner", "who is created with an owner passes who waits", "create.lua",
		"if fair_key_of(route, 0 - priority).waits > 0 then", "if false then", "Shares_AnOwnerTakesNobodysTurn"),

	standing("limits/kernel/local-back", "who waits for a local limit keeps back others of it",
		"if !u.Local && (u.Key", "if (u.Key", "Local_GoesWithLimitsOfTheFleet"),
	localOnRedis("fits", "a claim is given what its worker has no room for", "part/take.lua",
		"full, never = full or own and u[3] > own[1],", "full, never = full,", "Local_AClaimIsGivenWhatFitsItsRoom"),
	localOnRedis("spend", "what a claim was given takes no room in it", "part/take.lua",
		"has[u[1]][1] = has[u[1]][1] - u[3]", "", "Local_AClaimIsGivenWhatFitsItsRoom"),
	localOnRedis("keeps", "lighter runs take the room of the first that was passed over", "part/take.lua",
		"has[u[1]][1] = 0", "", "Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch"),
	localOnRedis("never", "the room is kept for what the worker never has room for", "part/take.lua",
		"if u[5] and has[u[1]] and not never then", "if u[5] and has[u[1]] then", "Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch"),
	localOnRedis("says-never", "a worker is not told what it never has room for", "part/take.lua",
		"never and '1' or ''", "''", "Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch"),
	localOnRedis("since", "what was passed over does not say since when it waits", "part/take.lua",
		"note_vain(run, uses_of(run))\n", "", "Local_WhatIsPassedOverKeepsTheRoomUnlessTheWorkerNeverHasSoMuch"),
	localOnRedis("called-off", "what was called off waits for room", "part/take.lua",
		"return not l.off and l.uses or nil", "return l.uses", "Local_WhatWasCalledOffNeedsNoRoom"),
	localOnRedis("heavy", "what can never have its permits waits for room", "part/take.lua",
		"and not too_heavy(with_limits(limiter.uses)) and not fits(", "and not fits(", "Local_WhatIsTooHeavyNeedsNoRoom"),

	localOnRedis("back", "who waits for a local limit keeps back others of it", "part/limiter_queue.lua",
		"if not u[5] and (u[2]", "if (u[2]", "Local_GoesWithLimitsOfTheFleet"),

	ownLimit("local-counts", "a worker does not count what it has given away of its own",
		"free[u.Name] -= u.Weight", "", "TestPOOL5_AWorkerThatHasEnoughWarnsOfNothing"),
	ownLimit("local-most", "a worker says that it has as much as is left",
		"Most: r.cfg.Capacity[name]", "Most: max(free[name], 0)", "TestPOOL5_AWorkerThatHasEnoughWarnsOfNothing"),
	ownLimit("local-warns", "a worker says nothing of what it never has room for",
		"warn = append(warn, p)", "", "TestPOOL4_WhatCanNeverBeginIsShownWithOneWarning/a_limit_that_no_worker_has_so_much_of"),
	ownLimit("local-once", "a worker says it again and again",
		"r.never[p.Route] = time.Time{}", "_ = p", "TestPOOL4_WhatCanNeverBeginIsShownWithOneWarning/a_limit_that_no_worker_has_so_much_of"),
	ownLimit("at-once", "a worker does not count the runs of a queue",
		"if in.queue == queue {", "if in.queue == queue && false {", "TestPOOL5_AtOnceBoundsTheRunsOfAQueueOnAWorker"),
}
