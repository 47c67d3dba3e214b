package main

// stops are visited at the same time, and reported in this order.
var stops = []stop{
	{"FLOW5", "messages arrive once and in order", messages},
	{"FLOW6", "hooks take what others post to a token", hooks},
	{"FLOW7", "values can be waited for and read from outside", values},
	{"FLOW8", "streams reach every reader whole", streams},
	{"RUN15", "slow readers are told that they fell behind", laggards},
	{"FLOW9", "children end as their parent wants", children},
	{"FLOW10", "a run that continues as new loses no message", continuations},
	{"FLOW11", "what was done is undone in reverse order", compensations},
	{"FLOW16", "asks are validated and answered once", asks},
	{"RUN3", "start options hold", startOptions},
	{"RUN5", "statuses say what a run waits for", statuses},
	{"RUN6", "followers see every event", followers},
	{"RUN8", "a cancel is recorded once and leaves time to clean up", cancels},
	{"RUN9", "a held run begins when it is released", held},
	{"RUN10", "a cancelled run goes on in a new one", resumed},
	{"RUN11", "runs are forked, restarted and retried", forked},
	{"RUN12", "runs are paused and executed step by step", paused},
	{"STEP10", "steps run on another queue", elsewhere},
	{"STEP12", "effects on a database happen exactly once", deposits},
	{"VER3", "a run keeps the version of a change that it met first", versions},
	{"POOL6", "the clock starts one run for each tick", schedules},
	{"REC1", "many runs at once keep their order", toils},
}
