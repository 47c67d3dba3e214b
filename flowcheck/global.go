package flowcheck

import "strings"

var globalRule = rule{
	name: "global",
	does: "belongs to the process: a write is repeated in every replay, and others may see or change it",
	mend: "use a local variable, or keep it in a step",
}

// readOf describes the read of a variable that another function writes.
func readOf(variable, writer string) string { return variable + ", which " + writer + " writes," }

func isRead(what string) bool { return strings.HasSuffix(what, " writes,") }

const readText = "may have another value in a replay: pass it as input, or read it in a step or with workflow.Record"
