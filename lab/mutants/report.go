package main

// alerting returns a mutant of the scan for alerts. The named tests of the worker must kill it.
func alerting(id, disabled, file, before, after string, tests ...string) Mutant {
	return working(id, disabled, "runtime/worker/internal/alerting/"+file, before, after, tests...)
}

// carried returns a mutant of the rule by which runs inherit attributes.
func carried(id, disabled, file, before, after string) Mutant {
	return working(id, disabled, "runtime/"+file, before, after, inMemory("TestEV11_EachWayInWhichARunComesIntoBeingHasItsAttributes")).in("runtime/promises/attributes").hanging()
}

// reportMutants disable guards of what operators are shown: alerts, attributes and rates.
var reportMutants = []Mutant{
	reducing("engine/alerts/recorded", "the end of a run does not name its alerts", "outcome.go",
		"end.Meta = effects.EncodeAlerts(s.Alerts(s.id, s.run.State(), end))", "", "TestOPS9_TheEventThatEndsARunNamesItsAlerts"),
	working("engine/alerts/sent", "the commit that ends a run does not write its alerts", "runtime/internal/effects/sends.go",
		"if e.Type == event.RunFailed && len(e.Meta) > 0 {", "if false {", inMemory("TestOPS9_RunsOfAFailureGroupCauseOneAlertPerWindow")).hanging(),
	reducing("engine/alerts/internal", "a failed run of the runtime causes alerts", "outcome.go",
		"|| event.Internal(s.route.Workflow) {", "{", "TestOPS9_ARunThatFailsByAStepOnAnotherQueueIsReportedOnce/by_the_commit_that_ends_it"),
	reducing("engine/alerts/rerun", "a run that is rerun causes alerts", "outcome.go",
		"|| !end.Due.IsZero() ", "", "TestOPS9_ARunThatIsRerunIsReportedOnceItFailsFinally").hanging(),
	working("engine/alerts/rule", "two rules share the alerts of a window", "runtime/event/id.go",
		`of := "alert\x00" + rule + "\x00" + group`, `of := "alert\x00" + group`, "TestOPS9_EachWorkflowAndEachRuleHasItsOwnAlert").hanging(),
	working("engine/alerts/group", "two failure groups share the alerts of a window", "runtime/event/id.go",
		`of := "alert\x00" + rule + "\x00" + group`, `of := "alert\x00" + rule`, "TestOPS9_EachWorkflowAndEachRuleHasItsOwnAlert").hanging(),
	working("engine/alerts/window", "a group is reported in one window only", "runtime/event/id.go",
		`return runIDOf(of, window, SlotOf(of+"\x00"+window.UTC().Format(time.RFC3339)))`, "return runIDOf(of, time.Time{}, SlotOf(of))", "TestOPS9_ANewWindowReportsTheGroupAgain"),
	working("engine/alerts/once", "each failed run has an alert of its own", "runtime/worker/internal/alerting/alerting.go",
		"of.ID, of.Rule, of.Condition, of.Target = event.AlertRunID(r.Name, group, r.WindowOf(at))", "of.ID, of.Rule, of.Condition, of.Target = event.AlertRunID(r.Name, group+string(of.Run), r.WindowOf(at))",
		inMemory("TestOPS9_RunsOfAFailureGroupCauseOneAlertPerWindow")),
	alerting("engine/alerts/refused", "a delivery that the target refuses counts as delivered", "alerting.go",
		"if err := target.Deliver(ctx, &of); err != nil {", "if err := target.Deliver(ctx, &of); false && err != nil {", "TestOPS9_AnAlertIsTriedUntilItsTargetAcceptsIt").hanging(),
	alerting("engine/alerts/turn", "each worker of a fleet scans", "scan.go",
		"if now.Sub(last.At) < scanEvery*3/4 && now.After(last.At) {", "if false {", "TestOPS9_OneWorkerOfAFleetReportsTheFindingsOfTheDoctor").in("runtime/worker/internal/alerting"),
	alerting("engine/alerts/gap", "a scan does not look back to the last one", "scan.go",
		"s.since = last.At.Add(-scanEvery)", "", "TestOPS9_AFailureWhileNoWorkerScansIsReported").hanging(),
	alerting("engine/alerts/scan-internal", "a scan reports a failed run of the runtime", "groups.go",
		"if event.Internal(run.Route.Workflow) || run.EndedAt.Before(s.since) {", "if run.EndedAt.Before(s.since) {", "TestOPS9_ARunThatFailsByAStepOnAnotherQueueIsReportedOnce/by_a_scan"),
	alerting("engine/alerts/missed", "missed ticks are not reported", "scan.go",
		"case t.Missed != nil && info.Missed > before:", "case info.Missed < before:", "TestOPS9_TicksThatWereMissedAreReported/with_the_same_rules").hanging(),
	alerting("engine/alerts/missed-new", "the missed ticks of a new schedule are not reported", "scan.go",
		"case t.Missed != nil && info.Missed > before:", "case before > 0 && info.Missed > before:", "TestOPS9_MissedTicksOfAScheduleThatIsNewerThanTheLastScanAreReported").hanging(),
	alerting("engine/alerts/missed-rules", "new rules forget what earlier rules have seen of schedules", "scan.go",
		"return newest.Missed, err", "return nil, err", "TestOPS9_TicksThatWereMissedAreReported/by_workers_with_other_rules").hanging(),

	carried("engine/attributes/start", "a start stores no attributes", "workflow/definition.go",
		"= o.hold, o.debug, attributes, c.thisBuild()", "= o.hold, o.debug, func() map[string]string { _ = attributes; return nil }(), c.thisBuild()"),
	carried("engine/attributes/child", "a child inherits no attributes", "internal/effects/sends.go",
		"len(all) > 0 && e.Name", `len(all) > 0 && spec.Parent == "" && e.Name`),
	carried("engine/attributes/tick", "the runs of a schedule inherit no attributes", "internal/effects/sends.go",
		"len(all) > 0 && e.Name", `len(all) > 0 && spec.Parent != "" && e.Name`),
	carried("engine/attributes/continue", "a run that continues loses its attributes", "internal/runloop/consequence.go",
		"spec.Collect, spec.Reruns, spec.Build = event.CollectNone, 0, s.Build", "spec.Collect, spec.Reruns, spec.Build, spec.Attributes = event.CollectNone, 0, s.Build, nil"),
	carried("engine/attributes/rerun", "retries, forks and restarts lose the attributes", "workflow/rerun.go",
		"spec := *old.log[0].Spec\n", "spec := *old.log[0].Spec\n\tspec.Attributes = nil\n"),
	working("engine/attributes/token", "a run of the runtime inherits attributes", "runtime/internal/effects/sends.go",
		" && e.Name != event.HookRun && e.Name != event.PermitRun {", " {", "TestPairs_ACommandInAnyStateDoesWhatTheRulesDecide/token_run").in("runtime/promises/pairs"),
	working("engine/attributes/message", "a message carries no attributes", "runtime/workflow/topic.go",
		"By: flow.Behalf(ctx), Attributes: attributes,", "By: flow.Behalf(ctx), Attributes: func() map[string]string { _ = attributes; return nil }(),", "TestEV11_TheAttributesOfAnItemApplyOnlyToItsHandling").in("runtime/promises/attributes"),
	working("engine/attributes/unread", "a message that a run passes on loses its attributes", "runtime/internal/runloop/consequence.go",
		"By: e.By, Attributes: e.Attributes})", "By: e.By})", "TestEV11_AMessageKeepsItsAttributesWhenItsRunContinues").in("runtime/promises/attributes"),
	reducing("engine/attributes/size", "the attributes that children inherit count nothing in a commit", "commit.go",
		"bytes += inherited\n", "\n", "TestEV11_CommitsAreBoundedWithTheAttributesOfChildren").in("runtime/promises/attributes"),

	working("engine/rates/refused", "commits that the store refuses are counted", "loop.go",
		"if c.Answer.Err != nil {\n\t\treturn claim\n\t}\n\tt.measure(c)", "t.measure(c)\n\tif c.Answer.Err != nil {\n\t\treturn claim\n\t}", "TestOPS4_OnlyAcceptedCommitsAreCounted"),
	working("engine/rates/internal", "runs of the runtime are counted", "rates.go",
		"if event.Internal(t.name()) {", "if false {", inMemory("TestOPS4_WorkersPublishTheirRatesInTheStore")).in("runtime/promises/limits").hanging(),
	working("engine/rates/begin", "a run that is claimed again is counted again as begun", "rates.go",
		"t.fresh = false", "", "TestOPS4_ARunIsCountedOnceHoweverManyCommitsItHas"),
	working("engine/rates/dead", "the rates of dead workers are counted", "runtime/ops/rates.go",
		"if !all[i].Live(now) {", "if false && !all[i].Live(now) {", "TestOPS4_RatesAreThoseOfLiveWorkers").in("runtime/ops"),
	working("engine/rates/minute", "the figures of the last minute contain older ones", "runtime/internal/rates/meter.go",
		" && r.slot[i]-1 > slot-slots }", " }", "TestOPS4_FiguresAreThoseOfTheLastMinute").in("runtime/internal/rates"),
}
