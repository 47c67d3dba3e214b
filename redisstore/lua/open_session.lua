-- OpenSession adds or renews a lease.
--
-- KEYS  1 the session  2 leases
-- ARGV  1 now  2 session  3 its ID  4 worker  5 time to live  6 fingerprint  7 the routes that it
--       serves, 16 bytes each  8 their names
--
-- Returns {'ok'} or {'expired'}.
--
-- Atomic, because a session that is being recovered must not become active again.
--
-- Parts: tag clock hear

if redis.call('HGET', KEYS[1], 'r') then
  return {'expired'}
end
local now = clock(ARGV[1])
redis.call('HSET', KEYS[1], 'i', ARGV[3], 'w', ARGV[4], 'l', ARGV[5], 'f', ARGV[6], 'k', ARGV[7], 'n', ARGV[8], 'u', hear(now, ARGV[5]))
redis.call('ZADD', KEYS[2], now + ARGV[5], ARGV[2])
return {'ok'}
