package pairs_test

// owed lists the cells that do not follow the rules, as scene and command, with the rules that each breaks. A row whose cell follows
// the rules fails the test: remove it. A star stands for any scene, or any command.
var owed = map[[2]string][]string{
	// Refusals of commands have no fix beside their text.
	{"*", "*"}: {"R27"},

	// A bulk action is about the runs that are older than the clock of the machine, not than that of the store.
	{"*", "bulk cancel"}:     {"R7", "R9"},
	{"*", "bulk pause"}:      {"R1", "R7", "R9"},
	{"*", "bulk resume"}:     {"R9"},
	{"*", "bulk step"}:       {"R9"},
	{"*", "bulk release"}:    {"R9"},
	{"*", "bulk retry"}:      {"R11"},
	{"*", "bulk resume-new"}: {"R11"},
	{"*", "bulk restart"}:    {"R11", "R20"},
	{"*", "bulk fork"}:       {"R11", "R20"},
	{"*", "bulk terminate"}:  {"R8", "R9"},
	{"*", "bulk delete"}:     {"R25"},

	// One key of a limit stops all that use the other limits as well.
	{"in line", "*"}:                             {"R3", "R4"},
	{"its step in line", "nothing"}:              {"R4"},
	{"paused, with a limit", "nothing"}:          {"R4"},
	{"waiting for a message, with a limit", "*"}: {"R4"},
	{"step run, in line", "nothing"}:             {"R4"},
	{"step run, attempt", "nothing"}:             {"R4"},

	// A run that is woken before it may begin takes permits.
	{"delayed, with a limit", "*"}: {"R2", "R3"},
	{"held, with a limit", "*"}:    {"R2", "R3"},

	// What waits in a line of a workflow id does not end before its turn.
	{"queued", "cancel"}:      {"R7"},
	{"queued", "cancel many"}: {"R7"},
	{"queued", "terminate"}:   {"R8"},

	// A pause does not reach the step runs.
	{"its step in line", "pause"}:              {"R1"},
	{"its step in backoff elsewhere", "pause"}: {"R1"},
	{"being cancelled", "pause"}:               {"R7"},

	{"a singleton", "restart"}: {"R20"},
	{"a singleton", "fork"}:    {"R20"},

	// The runtime's own take commands.
	{"step run, in line", "*"}:             {"R14"},
	{"step run, attempt", "*"}:             {"R14"},
	{"step run, backoff", "*"}:             {"R14"},
	{"step run, completed by others", "*"}: {"R14"},
	{"token run", "*"}:                     {"R14"},
	{"schedule", "*"}:                      {"R14"},
	{"schedule, paused", "*"}:              {"R14"},

	// The actions of a run are not those that would succeed.
	{"collecting", "restart"}:                {"R17"},
	{"debug", "pause"}:                       {"R17"},
	{"*", "step"}:                            {"R17"},
	{"*", "fork"}:                            {"R17"},
	{"paused, held", "resume"}:               {"R17"},
	{"failed, its rerun is open", "restart"}: {"R17"},
	{"failed and undone", "retry"}:           {"R17"},
	{"cancelled and undone", "resume-new"}:   {"R17"},

	{"failed, its rerun has failed", "retry"}:     {"R11"},
	{"failed, its rerun was deleted", "retry"}:    {"R11"},
	{"failed, a branch completed later", "retry"}: {"R11"},
}
