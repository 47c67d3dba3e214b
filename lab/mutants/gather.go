package main

// gatherMutants disable the guards of starts that share a run: each start joins exactly one run,
// which no worker has claimed.
var gatherMutants = []Mutant{
	memory("L12/memory/last", "the first start counts, and not the last", "create.go",
		"r.inbox[0] = item", "_ = item", "L12_OnlyTheItemOfTheLastStartIsKept"),

	sqlite("L12/sqlite/joined", "a start that has joined is not remembered", "create.go",
		"`INSERT INTO joined VALUES (?, ?, ?)`", "`SELECT ?, ?, ?`", "L12_AStartJoinsOnce"),
	sqlite("L12/sqlite/last", "another item is replaced than that of the last start", "create.go",
		"(SELECT min(seq) FROM inbox", "(SELECT max(seq) FROM inbox", "L12_OnlyTheItemOfTheLastStartIsKept"),

	onRedis("L12/redis/joined", "a start is not asked whether it was here", "lua/gather.lua",
		"if joined then", "if false then", "L12_AStartJoinsOnce"),
	onRedis("L12/redis/claim", "a start joins a run that was claimed before", "lua/gather.lua",
		" and string.sub(m[1], 18, 25) == nobody then", " then", "L12_NothingJoinsWhatWasClaimedOnce"),
	onRedis("L12/redis/urgent", "a run that is asked to end gathers on", "lua/part/push.lua",
		"if gathers and urgent then", "if false then", "L12_NothingJoinsWhatIsAskedToEnd"),
	onRedis("L12/redis/key", "a key leads to its run for ever", "lua/commit.lua",
		"if o[9] then", "if false then").by("TestGather_LeavesNothingOfAKeyOnceItsRunHasEnded"),
}
