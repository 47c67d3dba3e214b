-- CloseSession ends a session and recovers the runs that it owns.
--
-- KEYS  1 the session  2 leases
-- ARGV  1 now  2 session  3 maximum number of runs to recover
--
-- Returns {1 if runs remain for another call, or 0 if the session is gone, overwritten key, …}.
--
-- Atomic, because from the first call on the session must not own further runs. The call also
-- expires its lease, so that other sessions continue the recovery if there is no second call.
--
-- Parts: tag intact clock header ready leave trail recover

local id = intact('HGET', KEYS[1], 'i')
if not id and #findings == 0 then
  return {0}
end
redis.call('ZADD', KEYS[2], '0', ARGV[2])
recover(ARGV[2], id or '', 'session_closed', clock(ARGV[1]), tonumber(ARGV[3]))
return notified({redis.call('EXISTS', KEYS[1])})
