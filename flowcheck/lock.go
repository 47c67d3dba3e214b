package flowcheck

var lockRule = rule{
	name: "lock",
	does: "is not recorded, and may wait for ever while no other branch runs",
	mend: "leave it out, branches take turns; what others share belongs into a step",
}
