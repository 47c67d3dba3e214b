package pairs_test

// owed lists the cells that do not follow the rules, as scene and command, with the rules that each breaks. A row whose cell follows
// the rules fails the test: remove it. A star stands for any scene, or any command.
var owed = map[[2]string][]string{
	// The actions of a run are not those that would succeed.
	{"a singleton", "restart"}:                 {"R17"},
	{"a singleton", "fork"}:                    {"R17"},
	{"being cancelled", "pause"}:               {"R17"},
	{"debug", "pause"}:                         {"R17"},
	{"debug", "bulk pause"}:                    {"R1"},
	{"debug", "bulk resume"}:                   {"R9"},
	{"paused, held", "bulk pause"}:             {"R1"},
	{"failed, its rerun is open", "restart"}:   {"R17"},
	{"failed, its rerun is open", "fork"}:      {"R17"},
	{"failed, its rerun has failed", "retry"}:  {"R17"},
	{"failed, its rerun was deleted", "retry"}: {"R17"},
}
