-- CloseSession ends a session, and recovers what it still owns.
--
-- KEYS  1 the session  2 leases
-- ARGV  1 now  2 session  3 how many runs to recover at most
--
-- Returns {1 if runs are left for another call, or 0 if the session is gone, overwritten
-- key, …}.
--
-- Atomic, because from the first call on the session must own nothing new. Its
-- lease is past from then on, so that others go on if nobody calls again.
--
-- Parts: tag intact clock header ready leave trail recover

local id = intact('HGET', KEYS[1], 'i')
if not id and #findings == 0 then
  return {0}
end
redis.call('ZADD', KEYS[2], '0', ARGV[2])
recover(ARGV[2], id or '', 'session_closed', clock(ARGV[1]), tonumber(ARGV[3]))
return told({redis.call('EXISTS', KEYS[1])})
