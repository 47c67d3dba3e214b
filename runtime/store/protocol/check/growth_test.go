package check

import "testing"

// growShort is the short bound of each configuration, in states.
const growShort = 40_000

var growConfigs = []growConfig{
	{name: "starts", starts: 3, workers: 1, late: 1, crash: 1, short: growShort},
	{name: "starts that follow ended runs", starts: 3, workers: 1, reuse: true, lost: 1, late: 1, short: growShort},
	{name: "failovers", starts: 2, workers: 1, crash: 1, late: 1, failover: 2, short: growShort},
	{name: "a reader of the workflow ID", starts: 2, workers: 1, reader: true, reuse: true, crash: 1, failover: 1, short: growShort},
	{name: "a reader of a run", starts: 1, workers: 1, reader: true, byRun: true, crash: 1, failover: 1, short: growShort},
	{name: "limits and schedules", starts: 1, workers: 2, names: true, forget: 2, short: growShort},
}

var growSeeded = []struct {
	name  string
	in    int
	bug   growBug
	finds string
}{
	{"C1: a start visits only the newest home", 0, growBug{newestOnly: true}, "two runs of a workflow ID are active"},
	{"C1: an earlier home gets no seal", 0, growBug{noSeal: true}, "two runs of a workflow ID are active"},
	{"C1: a home accepts starts with an earlier generation", 0, growBug{ignoresSeal: true}, "two runs of a workflow ID are active"},
	{"C1: a start does not wait for the replication of a seal", 2, growBug{noWait: true}, "two runs of a workflow ID are active"},
	{"C1: a start does not visit a home again", 2, growBug{noRevisit: true}, "two runs of a workflow ID are active"},
	{"C1: a workflow ID leaves its ended runs", 1, growBug{onlyActive: true}, "two partitions have runs of a workflow ID"},
	{"C1: a record takes a new run ID in another generation", 1, growBug{newID: true}, "a run is created twice"},
	{"M1: a reader visits only the newest home", 3, growBug{readsNewest: true}, "a lookup misses what was there all the time"},
	{"M1: a reader ignores the seal", 3, growBug{readsStale: true}, "a lookup misses what was there all the time"},
	{"M1: a run is looked up only in its recorded generation", 4, growBug{runStays: true}, "a lookup misses what was there all the time"},
	{"L2: the home of a limit depends on the generation", 5, growBug{limitMoves: true}, "more permits are held than the limit has"},
	{"L13: the run of a tick depends on the generation", 5, growBug{tickMoves: true}, "a tick has two runs"},
	{"W2: workers do not learn generations", 4, growBug{workersStale: true}, "there is no way to the end without a fault"},
}

func TestCheck_GrowthKeepsItsPromisesInEveryState(t *testing.T) {
	for _, c := range growConfigs {
		t.Run(c.name, func(t *testing.T) { sound(t, explore(c.model(growBug{}), limit(c.short))) })
	}
}

func TestCheck_GrowthFindsEachMistake(t *testing.T) {
	for _, b := range growSeeded {
		in := growConfigs[b.in]
		t.Run(b.name, func(t *testing.T) { found(t, in.name, b.finds, explore(in.model(b.bug), seededMost)) })
	}
}
