package flowcheck

var exitRule = rule{
	name: "exit",
	does: "ends the worker with all of its runs, again in every replay",
	mend: "return an error",
	of:   map[string]string{"runtime.Goexit": "ends the branch behind the back of the engine: return an error"},
}
