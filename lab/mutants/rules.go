package main

// Rule is a rule that a store and its workers must not violate.
type Rule struct{ Name, Text string }

// Rules contains the rules in the order of the protocol.
var Rules = []Rule{
	{"F1", "Every write to a run names epoch and token."},
	{"F2", "Whatever takes a run from its owner changes the fence in that action."},
	{"F3", "A position is the cid of the last frame, never a count; a cid is never used for two frames."},
	{"F4", "A cached state is known by the cid of the last frame, too."},
	{"M1", "Accepted is in the inbox and in what was seen, in one action."},
	{"M2", "What was seen is asked before whether the run has ended."},
	{"M3", "Consume names ids."},
	{"M4", "Park and finish need an empty inbox; continue moves the inbox and what the code had not taken."},
	{"C1", "Create asks first whether the run exists; at most one run of a workflow id is active, successors wait in line."},
	{"C2", "A run and the items that it is created with are there together; they do not wake it."},
	{"P1", "Nothing is purged that somebody may still send again."},
	{"O1", "The ids of effects are derived, and effects go in order per pair of runs."},
	{"O2", "A record goes only after it is settled, what remembers it only after Confirm."},
	{"W1", "Heartbeats never create a lease."},
	{"W2", "Each heartbeat compares the runs that are owned."},
	{"W3", "A run has at most one commit in flight, and the same bytes are sent until they are answered."},
	{"W4", "Fenced does not say that the commit was not applied."},
	{"W5", "Only who was silent for a TTL while others were heard is dead."},
	{"K1", "Ready is a set; claim takes by queue state, not by list."},
	{"K2", "Push, then wake, in one action; one wake per route."},
	{"K3", "Whoever sets an earlier due time wakes; whoever knows it calls Due, busy or not."},
	{"B2", "No claim gives a run to a session with the code of one that could not replay it."},
	{"L12", "Starts gather until the claim; a start is first asked whether it was here."},
}

// Elsewhere contains the rules that no store implements, with the reason.
var Elsewhere = map[string]string{
	"F4": "Stores cache no state of code: the worker does, and compares the cid of the claim with its own.",
}
