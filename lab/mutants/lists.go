package main

import "strings"

// paged returns a mutant of package paging. The given behaviors of the conformance suite on the
// memory store must kill it.
func paged(id, disabled, before, after string, behaviors ...string) Mutant {
	m := memory(id, disabled, "", before, after, behaviors...)
	m.File = "runtime/store/paging/page.go"
	return m
}

// tested returns a mutant of a package. The named tests of the same package must kill it.
func tested(id, disabled, file, before, after string, tests ...string) Mutant {
	pkg, _, _ := strings.Cut(file, "/")
	return Mutant{ID: id, Disabled: disabled, File: file, Old: before, New: after, Package: pkg, Tests: tests}
}

// listMutants break the results of lists and counts, and the check of storage formats.
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
	tested("lists/sqlite/version", "a file of another version is opened as it is", "sqlitestore/schema.go",
		"case version != schemaVersion:", "case false:", "TestOpen_RefusesAFileOfAnotherVersionAndLeavesItAsItIs"),
	onRedis("lists/redis/window", "a page goes on behind runs of a set that was not read to its end", "list.go",
		"if w.more {\n\t\tw.all", "if false {\n\t\tw.all", "ListPagesWithoutACap", "APartialPageGoesOnBehindWhatWasLookedAt", "ListPagesTheRunsOfOneMillisecondByTheirIDs"),
	onRedis("lists/redis/same", "a page leaves out what was created in the millisecond of the last run", "list.go",
		"if w.before(last, r) {", "if false {", "ListPagesTheRunsOfOneMillisecondByTheirIDs", "OldestFirstPagesTheRunsOfOneMillisecondByTheirIDs"),
	tested("lists/redis/version", "a prefix of another version is opened as it is", "redisstore/open.go",
		"case version != formatVersion:", "case false:", "TestFormat_OfOthersAndOfOtherReleasesIsRefused"),
	onRedis("lists/redis/label", "a run is in no set of its labels", "lua/part/add.lua",
		"if wid or tags then", "if false then", "ListByTagsSelectsAmongOtherFilters"),
	onRedis("lists/redis/label-beside", "tags beside the metadata are no labels", "lua/part/add.lua",
		"extra ~= '' and extra or ARGV[i + 1]", "extra == '' and ARGV[i + 1] or nil", "ListByTagsTellsTextsApart"),
	onRedis("lists/redis/label-deleted", "a deleted run stays in the sets of its labels", "lua/delete.lua",
		"if m[4] or m[9] then", "if false then", "ListByTagsFollowsRunsToTheirPurge"),
	onRedis("lists/redis/label-purged", "a run that is purged stays in the sets of its labels", "lua/purge.lua",
		"if m[1] or m[7] then", "if false then", "ListByTagsFollowsRunsToTheirPurge"),
	tested("lists/redis/label-smallest", "of several sets the largest is read", "redisstore/list.go",
		"if sizes[i].Val() < sizes[best].Val() {", "if sizes[i].Val() > sizes[best].Val() {", "TestLabels_ASearchLooksAtFewOtherRuns"),
}
