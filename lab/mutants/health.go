package main

// healthMutants disable what health checks depend on.
var healthMutants = []Mutant{
	working("engine/worker/blind", "a stuck loop is live", "watchdog.go",
		"l.still.Add(int64(interval))", "l.still.Add(0)", "TestOPS7_AStuckLoopIsNotLive").hanging(),
	working("engine/worker/still", "a loop that has made progress stays stuck", "watchdog.go",
		"			l.still.Store(0)\n", "", "TestOPS7_AStuckLoopIsNotLive").hanging(),
	working("engine/worker/waiting", "a worker that waits for the store is stuck", "runtime/worker/internal/lease/lease.go",
		"l.Pulse.Wait()\n	answer, err := l.Store.Heartbeat", "answer, err := l.Store.Heartbeat", "TestOPS7_AStoreThatDoesNotAnswerIsNotReadyAndLive").hanging(),
	working("engine/worker/reachable", "a store that has answered once is reachable", "health.go",
		" && time.Since(h.LastAnswer) < max(3*w.cfg.Heartbeat, 3*time.Second)", "", "TestOPS7_AStoreThatDoesNotAnswerIsNotReadyAndLive").hanging(),
	working("engine/worker/claimed", "claims are not recorded", "runtime/worker/internal/lease/lease.go",
		"l.claimed = time.Now()", "", "TestOPS7_HealthFollowsAWorkerFromItsBeginToItsEnd"),
	working("engine/worker/expired", "a session is alive after the store has reported its end", "runtime/worker/internal/lease/lease.go",
		`return l.id != "" && !l.over && `, `return l.id != "" && `, "TestOPS7_AnExpiredSessionIsNotReadyUntilItIsReopened").hanging(),
	working("engine/worker/second", "a worker has ended when Run is called again", "worker.go",
		`		return errors.New("worker: Run was called twice: create a new worker")`,
		`		w.vitals.end.Store(&ending{errors.New("twice")})
		return errors.New("worker: Run was called twice: create a new worker")`, "TestOPS7_ARunErrorIsNotLive"),

	working("engine/health/flood", "each request makes a probe", "runtime/health/store.go",
		"time.Since(c.ended) < probeEvery", "false", "TestOPS7_AFloodOfRequestsCostsOneProbePerSecond").in("runtime/health"),
	working("engine/health/hangs", "a probe waits as long as the store", "runtime/health/store.go",
		"			settle(false)\n			expired = nil", "			expired = nil", "TestOPS7_AStoreThatHangsIsNotReadyInTime").in("runtime/health").hanging(),
	working("engine/health/first", "only the first check counts", "runtime/health/health.go",
		"for i := range checks {\n		for _, reason", "for i := range checks[:min(1, len(checks))] {\n		for _, reason",
		"TestOPS7_EndpointsOfAProcessWithTwoWorkers").in("runtime/health").hanging(),
	working("engine/health/notify-ready", "a service is ready before its session is open", "runtime/health/systemd/systemd.go",
		"	if all {", "	if live {", "TestOPS7_SystemdFollowsAService").in("runtime/health/systemd"),
	working("engine/health/notify-stuck", "the watchdog is served while a loop is stuck", "runtime/health/systemd/systemd.go",
		"n.timeout > 0 && live && ", "n.timeout > 0 && ", "TestOPS7_SystemdFollowsAService").in("runtime/health/systemd").hanging(),
	working("engine/health/notify-stops", "the end of a worker is not announced", "runtime/health/systemd/systemd.go",
		"	if ends {", "	if false && ends {", "TestOPS7_SystemdWaitsForAllWorkersOfAProcess").in("runtime/health/systemd").hanging(),
}
