package flowcheck

var recordRule = rule{name: "record"}

// checkRecord finds operations that the function of a Record must not use.
func checkRecord(p *packagePass, u *unit) {
	if !u.isRecord {
		return
	}
	for _, pr := range u.prims {
		switch pr.rule {
		case durable:
			p.report("record", pr.pos, pr.end, pr.what+" is a durable operation in the function of a Record, which no replay calls: do it in front of the Record")
		case "channel", "lock", "goroutine":
			p.report("record", pr.pos, pr.end, pr.what+" is in the function of a Record, for which the run stands still: do it in a step")
		}
	}
	for _, c := range u.calls {
		if p.isDurableFunc(c.fn) {
			p.report("record", c.pos, c.end, display(c.fn)+" has durable operations, in the function of a Record, which no replay calls: call it in front of the Record")
		}
	}
}
