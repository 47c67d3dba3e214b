package main

// stops are visited at the same time, and reported in this order.
var stops = []stop{
	{"FLOW5", messages},
	{"FLOW6", hooks},
	{"FLOW7", values},
	{"FLOW8", streams},
	{"RUN15", laggards},
	{"FLOW9", children},
	{"FLOW10", continuations},
	{"FLOW11", compensations},
	{"FLOW16", asks},
	{"RUN3", startOptions},
	{"RUN5", statuses},
	{"RUN6", followers},
	{"RUN8", cancels},
	{"RUN9", held},
	{"RUN10", resumed},
	{"RUN11", forked},
	{"RUN12", paused},
	{"STEP10", elsewhere},
	{"STEP12", deposits},
	{"VER3", versions},
	{"REC1", toils},
}
