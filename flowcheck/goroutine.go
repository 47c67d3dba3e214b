package flowcheck

var goroutineRule = rule{
	name: "goroutine",
	does: "leaves the order of things to the scheduler, and durable operations panic there",
	mend: "use workflow.Go",
}
