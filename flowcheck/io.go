package flowcheck

var ioRule = rule{
	name: "io",
	does: "reaches out of the process, again in every replay",
	mend: "do it in a step",
}
