package flowcheck

var channelRule = rule{
	name: "channel",
	does: "is not recorded, and may wait for ever while no other branch runs",
	mend: "use a future, a topic, or a variable: branches take turns",
}
