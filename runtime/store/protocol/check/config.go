package check

// configs are the configurations of the model of runs.
var configs = []config{
	lostClaim, two, late, purgeSoon, blocks, hooks, fence1, {name: "fence-late", expire: 1, delay: 2}, {name: "crash", messages: 1, crash: 1, expire: 1, delay: 1},
	delivery, {name: "delivery-expiry", messages: 2, expire: 1, delay: 1},
	continues, {name: "continue-expiry", continues: true, messages: 2, expire: 1},
	inLine, {name: "cancel-and-start-delivery", starter: true, messages: 1, delay: 2},
	purges, {name: "purge-create", starter: true, delay: 2, ticks: 2},
	failover, {name: "failover-expiry", expire: 1, failover: 1, delay: 1},
	failoverDelivery, {name: "failover-continue", continues: true, messages: 2, failover: 1},
	{name: "failover-hand-over", messages: 1, failover: 1, handover: 1},
	handover, byName, {name: "claim-by-name-line", starter: true, tool: 1}, {name: "blocked-expiry", codes: true, messages: 1, expire: 1, delay: 1},
}

// Those by which bugs are found.
var (
	lostClaim        = config{name: "lost-claim", delay: 1}
	fence1           = config{name: "fence", messages: 1, expire: 1, delay: 1}
	delivery         = config{name: "delivery", messages: 2, crash: 1, delay: 2}
	continues        = config{name: "continue", continues: true, messages: 2, delay: 2}
	hooks            = config{name: "continue-hook", continues: true, messages: 1, hook: true, delay: 1}
	inLine           = config{name: "cancel-and-start", starter: true, expire: 1, delay: 1}
	purges           = config{name: "purge", continues: true, messages: 1, delay: 2, ticks: 2}
	failover         = config{name: "failover", messages: 1, failover: 1, delay: 1, short: 14_000}
	failoverDelivery = config{name: "failover-delivery", messages: 2, failover: 1, delay: 1}
	handover         = config{name: "hand-over", messages: 1, handover: 1, expire: 1, delay: 1}
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
