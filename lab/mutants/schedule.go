package main

// scheduled returns a mutant of the code for schedules. The named test of schedules must kill it on
// the memory store.
func scheduled(id, disabled, file, before, after, test string) Mutant {
	return working(id, disabled, "runtime/"+file, before, after, inMemory(test)).in("runtime/promises/schedules").hanging()
}

// scheduleMutants disable two groups of guards. With the first, each tick starts exactly one run.
// With the second, an order applies from the time at which it was given.
var scheduleMutants = []Mutant{
	scheduled("engine/schedule/tick", "a tick that is asked for again is another run", "event/id.go",
		`"schedule\x00"+schedule+"\x00"+tick`, "string(NewItemID())", "TestPOOL6_WhatIsAskedOfAScheduleReachesItOnEveryStore"),
	scheduled("engine/schedule/settles", "a schedule waits for the ends of what it starts", "worker/internal/outbox/relay.go",
		"refusal == nil && p.Answer == effects.Settles", "refusal == nil && false", "TestPOOL6_AScheduleGoesOnAsNewRunsAndKeepsItsLogShort"),
	scheduled("engine/schedule/replace", "a tick that replaces a run waits for its end", "internal/effects/outboxmessage.go",
		"c.Cancel, err = Replaced(o.To)", "", "TestPOOL6_OverlapDecidesWhatATickDoesThatFindsARun"),
	scheduled("engine/schedule/order", "an order counts from when it is heard", "workflow/schedulerun.go",
		"if err := r.ticks(at); err != nil {", "if err := r.ticks(Now(r.ctx)); err != nil {", "TestPOOL6_AnOrderCountsFromWhenItWasGiven"),
	scheduled("engine/schedule/pause", "ticks start in a pause", "workflow/schedulerun.go",
		"return !r.state.Paused && ", "return ", "TestPOOL6_AnOrderCountsFromWhenItWasGiven"),
	scheduled("engine/schedule/late", "ticks start however late they are", "workflow/schedule.go",
		"case late(next):", "case late(next) && false:", "TestPOOL6_TicksThatNobodyStartedInTimeAreCaughtUp/none_that_is_too_late"),
	scheduled("engine/schedule/overtakes", "an order comes before ticks that another run of the schedule must start", "workflow/schedulerun.go",
		"if r.full() && r.anyDue(at) {", "if false {", "TestPOOL6_AnOrderLosesNoneOfTheTicksBeforeIt/a_pause"),
	scheduled("engine/schedule/put-back", "an order that waits is dropped", "internal/replay/topic.go",
		"t.unread = slices.Insert(t.unread, 0, e)", "_, _ = t, e", "TestPOOL6_AnOrderLosesNoneOfTheTicksBeforeIt/a_pause"),
	scheduled("engine/schedule/many", "a run of a schedule that begins with many orders obeys none", "internal/replay/branch.go",
		"int(b.run.state.Seq - b.run.state.Uncounted)", "int(b.run.state.Seq)", "TestPOOL6_AScheduleObeysWhateverManyOrdersWaitForIt"),
	scheduled("engine/schedule/moves", "a schedule stays on its queue when its workflow moves to another one", "workflow/schedulerun.go",
		"r.starts >= startsWanted || r.moves()", "r.starts >= startsWanted", "TestPOOL6_AScheduleFollowsItsWorkflowToAnotherQueue"),
	scheduled("engine/schedule/delayed", "a pause takes a tick that is due after it", "workflow/schedulerun.go",
		"return r.state.Does.dueAfter(r.state.Name, r.state.Next, at)", "return r.state.Does.first(at)", "TestPOOL6_APauseTakesOnlyTheTicksThatAreDueInIt/before_it"),
	scheduled("engine/schedule/newest", "each missed tick starts where runs may not overlap", "workflow/schedule.go",
		"case s.each():", "case true:", "TestPOOL6_TicksThatNobodyStartedInTimeAreCaughtUp/the_newest_if_not"),
	scheduled("engine/schedule/began", "the declaration that comes last holds", "workflow/schedules.go",
		"d != nil && other.Since.Before(d.Since)", "false", "TestPOOL6_ALateDeclarationOfAnOlderWorkerChangesNothing"),
	scheduled("engine/schedule/declared", "a declaration takes back what was changed by hand", "workflow/schedules.go",
		"last != nil && last.Does.same(o.Declare.Does)", "false", "TestPOOL6_TheDeclarationOfTheWorkerThatBeganLastHolds"),
	working("engine/schedule/turn", "a tick that waits for those before it counts as late", "runtime/workflow/schedule.go",
		"!looked && tick.Add(s.Jitter).After(oldest)", "!looked && false", "TestPlan_DecidesAboutEachTickOnceWheneverItIsAsked").in("runtime/workflow"),
}
