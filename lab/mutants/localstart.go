package main

// localStartMutants disable the guards that make a run created and begun by the same worker as safe
// as a claimed run.
var localStartMutants = []Mutant{
	working("engine/worker/local-start-messages", "a worker takes a start that has messages", "worker.go",
		"len(c.Items) > 0 || ", "", "TestFLOW5_AStartHasItsMessagesBeforeTheCodeBegins/memory").in("runtime/promises/runs"),
	working("engine/worker/local-start-durable", "a run that is handed over begins its first step before it exists", "nextcommit.go",
		"c.starts, d.stepping.starts = d.stepping.starts, nil", "for _, a := range d.stepping.starts {\n\t\t\td.stepping.launch(a)\n\t\t}\n\t\td.stepping.starts = nil",
		"TestREC1_AHandedOverStepBeginsWhenItsRunIsDurable"),
	working("engine/worker/local-start-sends", "the first frame of a local start holds what goes to other runs", "nextcommit.go",
		"len(sends)+len(published) > 0", "len(sends)+len(published) > 1<<20", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")).hanging(),
	working("engine/worker/local-start-ends", "the first frame of a local start ends the run", "nextcommit.go",
		"e.Type.Terminal() || ", "", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")).hanging(),
	working("engine/worker/local-start-values", "the first frame of a local start holds publications", "nextcommit.go",
		"len(effects.Publications(d.run.State(), e)) > 0", "len(effects.Publications(d.run.State(), e)) > 1<<20", inMemory("TestREC1_WhateverARunDoesFirstItMayBeHandedOver")),
	working("engine/worker/local-start-refused", "a local start that the store refuses is the answer to its start", "committer.go",
		"errors.Is(a.Err, store.ErrExpired) || ", "", "TestRUN1_StartFallsBackWhenTheSessionIsOver"),
	working("engine/worker/local-start-seen", "a late answer of a reconciliation drops what was created since", "handle.go",
		"t.claimSeq = t.runs.claimSeq.Add(1)", "_ = 0", "TestReconcile_ARunThatIsCreatedBeforeTheAnswerIsKept"),
	working("engine/worker/local-start-overtakes", "what is started on a worker overtakes what waits for it", "runs.go",
		"r.stopping.Load() || r.behind[start.partition]", "r.stopping.Load()", "TestRUN5_WhatIsHandedOverDoesNotOvertake"),
	working("engine/workflow/local-start-patience", "whoever starts a run waits for code that hangs", "runtime/workflow/host.go",
		"if s.Withdraw() {", "if false {", "TestRUN1_StartDoesNotWaitForCodeThatHangs").hanging(),
}
