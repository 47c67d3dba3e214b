-- Due makes runs ready whose time has come.
--
-- KEYS  1 timers
-- ARGV  1 now  2 how many at most
--
-- Returns the next due time, '' if there is none.
--
-- Atomic, because a run must leave the timers and become ready in one action.
-- The keys of the runs are built: they are found here.
--
-- Parts: tag clock head ready due

return make_due(clock(ARGV[1]), tonumber(ARGV[2]))
