-- Due makes runs ready whose due time has passed.
--
-- KEYS  1 timers
-- ARGV  1 now  2 maximum number of runs
--
-- Returns {next due time or '', overwritten key, …}.
--
-- Atomic, because a run must leave the timers and become ready in one action. The keys of the runs
-- are built because the runs are found here.
--
-- Parts: tag intact clock header ready due

local _, at = clock(ARGV[1])
return notified({make_due(at, ARGV[2])})
