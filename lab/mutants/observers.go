package main

// watched returns a mutant of the reports to observers in the reducer. The named tests of the worker
// must kill it.
func watched(id, disabled, file, before, after string, tests ...string) Mutant {
	return reducing("engine/observers/"+id, disabled, file, before, after, tests...)
}

// The tests of observers.
const (
	eachEventOnce = "TestOPS4_ObserversReceiveEachCommittedEventOnceAcrossWorkers/memory"
	onlyConfirmed = "TestOPS4_OnlyConfirmedCommitsAreReported"
)

// observerMutants break the rules of package observe.
var observerMutants = []Mutant{
	watched("early", "a commit is reported when it is sent", "proceed.go",
		"s.inflight = c\n", "s.inflight = c\n\tif s.Observed && c.Req.Frame != nil {\n\t\ts.reportCommit(c, s.unsaved[:c.events], s.logBytes)\n\t}\n", onlyConfirmed),
	watched("refused", "a refused commit is reported", "react.go",
		"s.refusedCommits++\n\t\ts.mustRead = true", "s.refusedCommits++\n\t\ts.mustRead = true\n\t\tif s.Observed {\n\t\t\ts.reportCommit(c, s.unsaved[:c.events], s.logBytes)\n\t\t}", onlyConfirmed),
	watched("unreported", "a confirmed commit is not reported", "react.go",
		"if c.Req.Frame != nil && s.Observed {", "if false {", eachEventOnce, onlyConfirmed),
	watched("replay", "a replay reports the events of the log", "replay.go",
		"s.observe(earlier.extend(events), earlier.took+s.moment.Now.Sub(began))", "s.observe(earlier.extend(events), earlier.took+s.moment.Now.Sub(began))\n\tif s.Observed {\n\t\ts.reportCommit(&Commit{}, events, 0, 0)\n\t}", eachEventOnce),
	watched("reused", "the memory of the events is reused before they are reported", "commit.go",
		"if s.Observed {", "if false {", eachEventOnce),
	watched("first", "a commit is reported before its steps begin", "react.go",
		"defer s.reportCommit(", "s.reportCommit(", "TestOPS4_TheStepsOfACommitStartBeforeItsReport"),
	working("engine/observers/panic", "a panic of an observer ends the worker", "observers.go",
		"o.guard(i, func() { seen[i] = observer.Run(*r) })", "seen[i] = observer.Run(*r)", "TestOPS4_PanicOfAnObserverIsLoggedOnceAndHidesNoEvent"),
	working("engine/observers/stop", "an observer is stopped while runs are executed", "worker.go",
		"defer w.loop.observers.start(w.gauges)()", "w.loop.observers.start(w.gauges)()", eachEventOnce),
}
