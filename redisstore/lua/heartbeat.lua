-- Heartbeat renews the lease of a session.
--
-- KEYS  1 the session  2 leases  3 its runs  4 its mail  5 timers  6 records of
--       the outbox by when something is to be done for them
-- ARGV  1 now  2 session
--
-- Returns {'expired', overwritten key, …} or {'ok', runs owned, next due time, when there is something to
-- do in the outbox, run with mail, …}.
--
-- Atomic, because a lease that is gone or being recovered must not be written: a
-- heartbeat never creates one. A session of which a key was overwritten is over.
--
-- Parts: tag intact clock hear

local s, owned, answer = intact('HMGET', KEYS[1], 'i', 'r', 'l') or {}, intact('SCARD', KEYS[3]), intact('HKEYS', KEYS[4])
if not s[1] or s[2] then
  return told({'expired'})
end
if not owned or not answer then
  redis.call('HSET', KEYS[1], 'r', '1')
  return told({'expired'})
end
local now = clock(ARGV[1])
redis.call('ZADD', KEYS[2], now + s[3], ARGV[2])
redis.call('HSET', KEYS[1], 'u', hear(now, s[3]))
table.insert(answer, 1, 'ok')
table.insert(answer, 2, owned)
table.insert(answer, 3, redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2] or '')
table.insert(answer, 4, redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2] or '')
return answer
