package check

// configs are the configurations of the model of runs.
var configs = []config{
	lostClaim, two, late, purgeSoon, blocks, hooks, fence1, {name: "fence-late", expire: 1, delay: 2}, {name: "crash", messages: 1, crash: 1, expire: 1, delay: 1},
	delivery, {name: "delivery-expiry", messages: 2, expire: 1, delay: 1},
	continues, {name: "continue-expiry", continues: true, messages: 2, expire: 1},
	inQueue, {name: "cancel-and-start-delivery", starter: true, messages: 1, delay: 2},
	purges, {name: "purge-create", starter: true, delay: 2, ticks: 2},
	failover, {name: "failover-expiry", expire: 1, failover: 1, delay: 1},
	failoverDelivery, {name: "failover-continue", continues: true, messages: 2, failover: 1},
	{name: "failover-hand-over", messages: 1, failover: 1, localstart: 1},
	localstart, byName, {name: "claim-by-name-line", starter: true, tool: 1}, {name: "blocked-expiry", codes: true, messages: 1, expire: 1, delay: 1},
}

// These configurations are used with seeded bugs.
var (
	lostClaim        = config{name: "lost-claim", delay: 1}
	fence1           = config{name: "fence", messages: 1, expire: 1, delay: 1}
	delivery         = config{name: "delivery", messages: 2, crash: 1, delay: 2}
	continues        = config{name: "continue", continues: true, messages: 2, delay: 2}
	hooks            = config{name: "continue-hook", continues: true, messages: 1, hook: true, delay: 1}
	inQueue          = config{name: "cancel-and-start", starter: true, expire: 1, delay: 1}
	purges           = config{name: "purge", continues: true, messages: 1, delay: 2, ticks: 2}
	failover         = config{name: "failover", messages: 1, failover: 1, delay: 1, short: 14_000}
	failoverDelivery = config{name: "failover-delivery", messages: 2, failover: 1, delay: 1}
	localstart       = config{name: "hand-over", messages: 1, localstart: 1, expire: 1, delay: 1}
	byName           = config{name: "claim-by-name", messages: 1, tool: 2, expire: 1, delay: 1}
	two              = config{name: "two-messages", messages: 2}
	late             = config{name: "late-delivery", messages: 1, delay: 1}
	purgeSoon        = config{name: "purge-at-once", continues: true, messages: 1, ticks: 2}
	blocks           = config{name: "blocked", codes: true, messages: 1, crash: 1}
)

// trades are the configurations of the model of the outbox.
var (
	trade0 = trade{name: "outbox-quiet", short: 20_000}
	trade1 = trade{name: "outbox", crash: 1}
	trade2 = trade{name: "outbox-failover", crash: 1, fails: true, short: 12_000}
	trade3 = trade{name: "outbox-stall", fails: true}
	trade4 = trade{name: "outbox-start", alone: true, crash: 1}
	trades = []trade{trade0, trade1, trade2, trade3, trade4}
)

// homeConfigs are the configurations of the model of limits.
var homeConfigs = []homeConfig{
	homePairs, homeCrash, homeLost, homeLate, homeWakes, homeHeavy, homeClasses, homeGone, homeSets, homeShrinks, homeWhole, homeRate,
	homeRatePair, homeOwners, homeContinues, homeContinuesOther, homeByName, homeRanks, homeGrants, homeGoneWakes, homeBack, homeBackRanks, homeNested, homeNestedGrants, homeNestedTurn,
	homeOrder, homeOrderPause, homeOrderLater, homeOrderHeavy, homeOrderWakes, homeNestedLater, homeNestedGrantsLater, homeOrderRate, homeStream, homeKept, homeThree, homeThreeAll, homeThreePause, homeNestedPasses, homeNestedAll,
	homeSeize, homeSeizeWakes, homeUnused, homeUnusedRate,
}

var (
	bothAll  = [2][2]bool{{true, true}, {true, true}}
	bothEach = [2][2]bool{{true, false}, {false, true}}
	needPair = [slots][kinds]uint8{{1, 1}, {1, 1}, {0, 1}}
	needOne  = [slots][kinds]uint8{{1}, {1}, {1}}

	// Each run needs one or two limits, while sessions end and answers are lost.
	homePairs = homeConfig{name: "limits-pairs", need: needPair, serves: bothAll, free: [kinds]uint8{1, 1}, left: homeBudget{expire: 1, lose: 1}, cover: true}
	homeCrash = homeConfig{name: "limits-crash", need: needPair, serves: bothAll, free: [kinds]uint8{1, 1}, left: homeBudget{crash: 1, cancel: 1}, cover: true}
	homeLost  = homeConfig{name: "limits-lost", runs: 2, need: needOne, serves: bothAll, free: [kinds]uint8{1}, left: homeBudget{expire: 1, lose: 2, resend: 1}, cover: true}
	homeLate  = homeConfig{name: "limits-late", runs: 2, need: needOne, serves: bothAll, free: [kinds]uint8{1}, left: homeBudget{expire: 1, late: 1, lose: 1}, cover: true}
	// No worker checks periodically, so the wakes must suffice.
	homeWakes = homeConfig{name: "limits-wakes", need: [slots][kinds]uint8{{0, 1}, {1, 1}, {1, 0}}, serves: bothAll, free: [kinds]uint8{1, 1}, left: homeBudget{cancel: 2, yield: 1}}
	// One run needs the whole limit, and a stream of other runs needs less.
	homeHeavy = homeConfig{name: "limits-heavy", need: [slots][kinds]uint8{{2}, {1}, {1}}, serves: bothAll, free: [kinds]uint8{2}, again: [slots]bool{false, true, true}, left: homeBudget{again: 4}}
	// There are one limit and two classes of work. Each class is served by its own worker.
	homeClasses = homeConfig{
		name: "limits-classes", need: needOne, class: [slots]uint8{0, 1, 1}, serves: bothEach, free: [kinds]uint8{1},
		again: [slots]bool{false, true, true}, left: homeBudget{again: 4, yield: 1},
	}
	homeGone      = homeConfig{name: "limits-class-gone", need: needOne, class: [slots]uint8{0, 1, 1}, serves: bothEach, free: [kinds]uint8{1}, left: homeBudget{crash: 1}, cover: true, gone: true}
	homeGoneWakes = homeConfig{
		name: "limits-class-gone-wakes", need: needOne, class: [slots]uint8{0, 1, 1}, serves: bothEach, free: [kinds]uint8{1}, sets: []capacity{{0, paused}, {0, 1}},
		left: homeBudget{crash: 1}, gone: true,
	}
	homeSets    = homeConfig{name: "limits-capacity", need: [slots][kinds]uint8{{1}, {1}, {2}}, serves: bothAll, free: [kinds]uint8{2}, sets: []capacity{{0, 1}, {0, paused}, {0, 2}}, left: homeBudget{cancel: 1}}
	homeShrinks = homeConfig{name: "limits-shrink", need: needOne, serves: bothAll, free: [kinds]uint8{2}, sets: []capacity{{0, 1}, {0, 0}}, left: homeBudget{park: 1, localstart: 1}}
	// Runs keep their permits from the first claim to the end.
	homeWhole = homeConfig{
		name: "limits-whole", runs: 2, need: needOne, whole: [slots]bool{true, true}, serves: bothAll, free: [kinds]uint8{1},
		left: homeBudget{crash: 1, lose: 1, yield: 1, cancel: 1, park: 1}, cover: true,
	}
	homeRate     = homeConfig{name: "limits-rate", need: needOne, serves: bothAll, rate: [kinds]bool{true}, left: homeBudget{localstart: 1, cancel: 1}}
	homeRatePair = homeConfig{name: "limits-rate-pair", need: needPair, serves: bothAll, free: [kinds]uint8{1}, rate: [kinds]bool{false, true}, left: homeBudget{yield: 1}}
	// Workers start runs that they own.
	homeOwners         = homeConfig{name: "limits-owners", need: [slots][kinds]uint8{{2}, {1}, {1}}, serves: bothAll, free: [kinds]uint8{2}, owned: true, left: homeBudget{yield: 1}}
	homeContinues      = homeConfig{name: "limits-continue", need: needOne, whole: [slots]bool{true, true, true}, serves: bothAll, free: [kinds]uint8{1}, continues: true, left: homeBudget{park: 1}}
	homeContinuesOther = homeConfig{name: "limits-continue-other", need: [slots][kinds]uint8{{1}, {0, 1}, {1}}, whole: [slots]bool{true, true, true}, serves: bothAll, free: [kinds]uint8{1, 1}, continues: true}
	homeByName         = homeConfig{name: "limits-by-name", need: needPair, serves: bothAll, free: [kinds]uint8{1, 1}, left: homeBudget{tool: 2, yield: 1}}
	homeRanks          = homeConfig{name: "limits-priority", need: needOne, class: [slots]uint8{0, 0, 1}, priority: [slots]uint8{0, 1, 0}, serves: bothAll, free: [kinds]uint8{1}, left: homeBudget{localstart: 1, cancel: 1}}
	// A grant leaves capacity for the next run.
	homeGrants = homeConfig{
		name: "limits-grants", need: [slots][kinds]uint8{{2}, {1}, {1}}, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{2}, left: homeBudget{yield: 1},
	}
	// A run becomes the first of a queue in which other runs were examined in vain.
	homeBack      = homeConfig{name: "limits-back", need: needOne, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{1}, left: homeBudget{localstart: 1, tool: 1}}
	homeBackRanks = homeConfig{
		name: "limits-back-priority", need: needOne, class: [slots]uint8{0, 0, 1}, priority: [slots]uint8{0, 1, 0}, serves: bothEach, free: [kinds]uint8{1},
		sets: []capacity{{0, paused}, {0, 1}}, left: homeBudget{tool: 1, yield: 1},
	}
	// A run that keeps a permit to its end waits for a run that uses the other limit, and a third
	// run uses both.
	homeNested = homeConfig{
		name: "limits-nested", need: [slots][kinds]uint8{{1, 0}, {0, 1}, {1, 1}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{1, 1}, left: homeBudget{expire: 1, yield: 1, again: 2}, again: [slots]bool{false, false, true}, cover: true,
	}
	// The other limit gets free capacity when a run ends and when its bound is raised.
	homeNestedGrants = homeConfig{
		name: "limits-nested-grants", need: [slots][kinds]uint8{{1, 0}, {0, 1}, {1, 2}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{1, 2}, sets: []capacity{{1, paused}, {1, 2}}, left: homeBudget{yield: 1, again: 1}, again: [slots]bool{false, false, true},
	}
	// A run that waits for the earlier limit does not count at the later limit, which other runs
	// use alone.
	homeOrder = homeConfig{
		name: "limits-order", need: [slots][kinds]uint8{{1, 1}, {1, 1}, {0, 1}}, serves: bothAll, free: [kinds]uint8{1, 2}, again: [slots]bool{false, false, true},
		left: homeBudget{cancel: 1, yield: 1, again: 2},
	}
	homeOrderPause = homeConfig{
		name: "limits-order-pause", need: [slots][kinds]uint8{{1, 1}, {0, 1}, {1, 0}}, serves: bothAll, free: [kinds]uint8{1, 1},
		sets: []capacity{{0, paused}, {0, 1}}, left: homeBudget{cancel: 1, yield: 1},
	}
	homeOrderLater = homeConfig{
		name: "limits-order-pause-later", need: [slots][kinds]uint8{{1, 1}, {0, 1}, {1, 0}}, serves: bothAll, free: [kinds]uint8{1, 1},
		sets: []capacity{{1, paused}, {1, 1}}, left: homeBudget{yield: 1, again: 1}, again: [slots]bool{false, false, true},
	}
	homeOrderHeavy = homeConfig{
		name: "limits-order-heavy", need: [slots][kinds]uint8{{1, 2}, {1, 1}, {0, 1}}, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{1, 2},
		again: [slots]bool{false, true, true}, left: homeBudget{again: 3, yield: 1},
	}
	homeOrderWakes = homeConfig{
		name: "limits-order-wakes", need: [slots][kinds]uint8{{2, 1}, {1, 1}, {0, 1}}, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{2, 1},
		left: homeBudget{cancel: 2, yield: 1, park: 1},
	}
	// Endless streams of runs use one limit each.
	homeStream = homeConfig{
		name: "limits-order-streams", need: [slots][kinds]uint8{{1, 1}, {1, 0}, {0, 1}}, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{1, 1},
		again: [slots]bool{false, true, true}, left: homeBudget{again: 4},
	}
	homeKept = homeConfig{
		name: "limits-order-behind", need: [slots][kinds]uint8{{2, 0}, {1, 1}, {0, 1}}, serves: bothAll, free: [kinds]uint8{2, 1},
		again: [slots]bool{false, true, true}, left: homeBudget{again: 3},
	}
	// With three limits, a queue that begins to count at the second limit sends back a queue that
	// counts at a later one.
	homeThree = homeConfig{
		name: "limits-order-three", need: [slots][kinds]uint8{{1, 1, 0}, {0, 1, 1}, {1, 0, 1}}, serves: bothAll, free: [kinds]uint8{1, 1, 1},
		again: [slots]bool{false, false, true}, left: homeBudget{again: 2, yield: 1},
	}
	homeThreeAll = homeConfig{
		name: "limits-order-three-all", need: [slots][kinds]uint8{{1, 1, 1}, {0, 1, 1}, {0, 0, 1}}, class: [slots]uint8{0, 0, 1}, serves: bothEach, free: [kinds]uint8{1, 1, 1},
		sets: []capacity{{0, paused}, {0, 1}}, left: homeBudget{cancel: 1, yield: 1},
	}
	homeThreePause = homeConfig{
		name: "limits-order-three-pause", need: [slots][kinds]uint8{{1, 1, 0}, {0, 1, 1}, {0, 0, 1}}, class: [slots]uint8{0, 1, 1}, serves: bothEach, free: [kinds]uint8{1, 1, 1},
		sets: []capacity{{0, paused}, {0, 1}, {2, paused}, {2, 1}}, left: homeBudget{yield: 1},
	}
	// A nested run skips a run that then keeps the limit for which the nested run waits.
	homeNestedPasses = homeConfig{
		name: "limits-nested-passes", need: [slots][kinds]uint8{{1, 0, 0}, {0, 1, 0}, {0, 1, 1}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{1, 1, 1}, sets: []capacity{{2, paused}, {2, 1}}, left: homeBudget{yield: 2, again: 2}, again: [slots]bool{false, false, true},
	}
	homeNestedAll = homeConfig{
		name: "limits-nested-all", need: [slots][kinds]uint8{{0, 0, 1}, {1, 1, 0}, {0, 1, 1}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{1, 1, 1}, left: homeBudget{expire: 1, yield: 1, again: 2}, again: [slots]bool{false, false, true}, cover: true,
	}
	// A client seizes runs from their limiter queues and from workers, and may crash while it holds
	// them.
	homeSeize      = homeConfig{name: "limits-seize", need: needPair, serves: bothAll, free: [kinds]uint8{1, 1}, left: homeBudget{seize: 1, crash: 1}, cover: true}
	homeSeizeWakes = homeConfig{name: "limits-seize-wakes", need: needOne, serves: bothAll, free: [kinds]uint8{1}, left: homeBudget{seize: 2, yield: 1}}
	// Runs that may not begin yet give back the permits that they were granted.
	homeUnused = homeConfig{
		name: "limits-unused", need: needOne, whole: [slots]bool{true, true}, serves: bothAll, free: [kinds]uint8{1}, left: homeBudget{unused: 2, yield: 1, localstart: 1},
	}
	homeUnusedRate = homeConfig{name: "limits-unused-rate", need: needOne, serves: bothAll, rate: [kinds]bool{true}, left: homeBudget{unused: 1, cancel: 1}}
	homeOrderRate  = homeConfig{name: "limits-order-rate", need: [slots][kinds]uint8{{1, 1}, {1, 1}, {0, 1}}, serves: bothAll, free: [kinds]uint8{0, 1}, rate: [kinds]bool{true}, left: homeBudget{yield: 1, cancel: 1}}
	// The run above the nested run holds the later limit.
	homeNestedLater = homeConfig{
		name: "limits-nested-later", need: [slots][kinds]uint8{{0, 1}, {1, 0}, {1, 1}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{1, 1}, left: homeBudget{expire: 1, yield: 1, again: 2}, again: [slots]bool{false, false, true}, cover: true,
	}
	homeNestedGrantsLater = homeConfig{
		name: "limits-nested-grants-later", need: [slots][kinds]uint8{{0, 1}, {1, 0}, {2, 1}}, whole: [slots]bool{true}, within: [slots]uint8{0, 1}, serves: bothAll,
		free: [kinds]uint8{2, 1}, sets: []capacity{{0, paused}, {0, 2}}, left: homeBudget{yield: 1, again: 1}, again: [slots]bool{false, false, true},
	}
	// Another run uses only the other limit.
	homeNestedTurn = homeConfig{
		name: "limits-nested-turn", need: [slots][kinds]uint8{{1, 0}, {0, 1}, {0, 2}}, class: [slots]uint8{0, 1, 0}, whole: [slots]bool{true},
		within: [slots]uint8{0, 1}, serves: bothEach, free: [kinds]uint8{1, 2}, sets: []capacity{{1, paused}, {1, 2}}, left: homeBudget{yield: 1, again: 1}, again: [slots]bool{false, false, true},
	}
)
