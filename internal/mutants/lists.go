package main

import "strings"

// paged returns a mutant of package paging that behaviours of the conformance suite must kill, on memory.
func paged(id, disabled, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, "", before, after, behaviors...)
	m.File = "runtime/store/paging/page.go"
	return m
}

// migrating returns a mutant of a store that tests of its migration must kill.
func migrating(id, disabled, file, before, after string, tests ...string) Mutant {
	pkg, _, _ := strings.Cut(file, "/")
	return Mutant{ID: id, Disabled: disabled, File: file, Old: before, New: after, Package: pkg, Tests: tests}
}

// listMutants break what lists and counts say, and what a migration must keep.
var listMutants = []Mutant{
	paged("lists/paging/budget", "a page looks at more than its budget",
		"func (p *Page) Left() int { return p.q.Work() - p.page.Looked }", "func (p *Page) Left() int { return 1 }", "NoListLooksAtMoreThanItsBudget"),
	paged("lists/paging/partial", "a page whose budget is spent does not say so",
		"p.page.Partial = true", "", "NoListLooksAtMoreThanItsBudget"),
	paged("lists/paging/cursor", "a partial page goes on behind its last run, and not behind what was looked at",
		"if r == nil {\n\t\tp.last = at", "if r == nil {", "NoListLooksAtMoreThanItsBudget", "APartialPageGoesOnBehindWhatWasLookedAt"),
	paged("lists/paging/exact", "a count whose budget is spent is called exact",
		"c.Counts.Exact = c.Counts.Exact && c.Counts.Looked < c.q.Work()\n\treturn c.Counts.Exact", "return c.Counts.Looked < c.q.Work()", "ACountThatIsNotExactSaysSo"),
	sqlite("lists/sqlite/tally", "a run that ends is not in the tallies", "protocol.go",
		"defer func() { t.tally(r, 1) }()", "", "CountIsByRouteAndStatus"),
	sqlite("lists/sqlite/purged", "a run that is purged stays in the tallies", "purge.go",
		"t.tally(r, -1)", "", "CountFollowsRunsToTheirPurge"),
	migrating("lists/sqlite/version", "a file of another version is opened as it is", "sqlitestore/schema.go",
		"case version != schemaVersion:", "case false:", "TestOpen_RefusesAFileOfAnotherVersionAndLeavesItAsItIs"),
	onRedis("lists/redis/window", "a page goes on behind runs of a set that was not read to its end", "list.go",
		"if w.more {\n\t\tw.all", "if false {\n\t\tw.all", "ListPagesWithoutACap", "APartialPageGoesOnBehindWhatWasLookedAt", "ListPagesTheRunsOfOneMillisecondByTheirIDs"),
	onRedis("lists/redis/same", "a page leaves out what was created in the millisecond of the last run", "list.go",
		"if w.before(last, r) {", "if false {", "ListPagesTheRunsOfOneMillisecondByTheirIDs", "OldestFirstPagesTheRunsOfOneMillisecondByTheirIDs"),
	migrating("lists/redis/fence", "an older release may go on to write", "redisstore/migrate.go",
		`s.moveKeys(ctx, p, fencedKeys, nil)`, `s.moveKeys(ctx, p, "", []string{"t", "e", "w", "k", "u", "v", "d", "h", "c", "T", "G", "D", "A", "L", "K", "Y", "J", "Q"})`,
		"TestMigrate_NoOperationOfTheReleaseBeforeWritesAnyMore"),
	migrating("lists/redis/fleet", "a migration begins while sessions are at work", "redisstore/migrate.go",
		"if len(fleet.Sessions) > 0 {", "if false {", "TestMigrate_BringsFormat2UpToDate"),
	migrating("lists/redis/sets", "runs are in no set after a migration", "redisstore/lua/migrate.lua",
		"if queue_state and m[4] then", "if false then", "TestMigrate_KeepsAllThatTheReleaseBeforeHasWritten"),
	migrating("lists/redis/taken", "a migration replaces a key", "redisstore/lua/migrate.lua",
		"if redis.call('EXISTS', tag .. name) == 1 then", "if false then", "TestMigrate_ReplacesNoKeyThatIsThereAlready"),
	migrating("lists/redis/stamp", "the format is stamped before the keys have their names", "redisstore/migrate.go",
		"return true, s.stamp(ctx, mark, s.markMeanwhile())", "return true, s.stamp(ctx, mark, s.mark())", "TestMigrate_KeepsAllThatTheReleaseBeforeHasWritten"),
	migrating("lists/redis/meanwhile", "a prefix that is being migrated is opened", "redisstore/format.go",
		"if mark == s.markMeanwhile() {", "if mark == s.markMeanwhile() {\n\t\treturn nil\n\t}\n\tif false {", "TestFormat_OfOthersAndOfOtherReleasesIsRefused"),
	onRedis("lists/redis/label", "a run is in no set of its labels", "lua/part/add.lua",
		"if wid or tags then", "if false then", "ListByTagsSelectsAmongOtherFilters"),
	onRedis("lists/redis/label-beside", "tags beside the metadata are no labels", "lua/part/add.lua",
		"extra ~= '' and extra or ARGV[i + 1]", "extra == '' and ARGV[i + 1] or nil", "ListByTagsTellsTextsApart"),
	onRedis("lists/redis/label-deleted", "a deleted run stays in the sets of its labels", "lua/delete.lua",
		"if m[4] or m[9] then", "if false then", "ListByTagsFollowsRunsToTheirPurge"),
	onRedis("lists/redis/label-purged", "a run that is purged stays in the sets of its labels", "lua/purge.lua",
		"if m[1] or m[7] then", "if false then", "ListByTagsFollowsRunsToTheirPurge"),
	migrating("lists/redis/label-smallest", "of several sets the largest is read", "redisstore/list.go",
		"if sizes[i].Val() < sizes[best].Val() {", "if sizes[i].Val() > sizes[best].Val() {", "TestLabels_ASearchLooksAtFewOtherRuns"),
	migrating("lists/redis/label-before", "an older format is searched by sets that lack its runs", "redisstore/format.go",
		"s.labelled.Store(mark == s.mark())", "s.labelled.Store(true)", "TestLabels_AStoreOfTheOlderFormatIsSearchedByLooking"),
	migrating("lists/redis/label-order", "a run that ends during a migration is missed", "redisstore/migrate_label.go",
		"range [][]string{open, done}", "range [][]string{done, open}", "TestLabels_AMigrationMissesNoRunThatChangesMeanwhile"),
	migrating("lists/redis/label-steps", "a migration takes one step of each set", "redisstore/migrate_label.go",
		`a.text(0) != "0" {`, `at[keys[i]] == "" {`, "TestLabels_AStoreOfTheOlderFormatIsSearchedByLooking"),
	migrating("lists/redis/label-gone", "runs that are gone stay in sets of labels", "redisstore/lua/label.lua",
		"if of_label and not m[1] then", "if false then", "TestLabels_AStoreOfTheOlderFormatIsSearchedByLooking"),
}
