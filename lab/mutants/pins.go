package main

// pinning returns a mutant of the code for pinned runs and deployments. The named test of package pins
// must kill it.
func pinning(id, disabled, file, before, after, test string) Mutant {
	return working(id, disabled, "runtime/"+file, before, after, test).in("runtime/promises/pins").hanging()
}

// pinMutants disable the rules by which runs are pinned to builds, stay there, and leave retired ones.
var pinMutants = []Mutant{
	pinning("engine/pins/fork", "a retry or fork is distributed like a start", "workflow/pin.go",
		"v.Takes(build, route) {", "v.Takes(build, route) && false {", inMemory("TestOPS10_RetriesStayOnTheBuildOfTheirLog")),
	pinning("engine/pins/retired", "a worker of a retired build announces all its routes", "worker/moves.go",
		"if !retired || !m.others(v, plain) ||", "if true || !m.others(v, plain) ||", inMemory("TestOPS10_ARetiredBuildClaimsNoRunsThatAreNotPinned")),
	pinning("engine/pins/claims", "a session is announced without routes while a commit claims from them", "worker/nextclaim.go",
		"answered := l.Claiming()", "answered := func() {}", "TestOPS10_AClaimByACommitFollowsTheRoutes"),
	pinning("engine/pins/all", "a client pins all runs after its worker has stopped", "internal/pins/pins.go",
		"p.all.Add(-pinning)", "p.all.Add(0)", "TestOPS10_AWorkerPinsAllRunsOnlyUntilItStops"),
	pinning("engine/pins/shares", "a build gets one percent too much", "internal/deploy/deploy.go",
		"at < 0 {", "at <= 0 {", "TestOPS10_Draw_FollowsTheShares").in("runtime/internal/deploy"),
	pinning("engine/pins/sleeping", "a build is drained although a sleeping run needs it", "ops/schedules.go",
		"workflow.StatusPaused, workflow.StatusSleeping,", "workflow.StatusPaused,", "TestOPS10_Drained_JudgesEachKindOfRun").in("runtime/ops"),
}
