-- Heartbeat renews the lease of a session, and restores runs that the sets of the partition have
-- lost.
--
-- KEYS  1 the session  2 leases  3 its runs  4 its runs with unread items  5 timers  6 records of
--       the outbox by the time of their next action  7 names of routes
-- ARGV  1 now  2 session  3 maximum number of unserved runs to return  4 maximum number of open
--       runs to examine
--
-- Returns {'expired', overwritten key, …} or {'ok', runs owned, next due time, time of the next
-- action in the outbox, number of unserved runs, number of restored runs, unserved run, …, restored
-- run, …, run with unread items, …}.
--
-- Atomic, because a lease that is gone or being recovered must not be written: a heartbeat never
-- creates one. A session of which a key was overwritten is expired. The keys of ready sets are
-- built from the names of the routes, and those of runs because the runs are found here.
--
-- Parts: tag intact clock header hear unserved trail ready park leave place restore

local s, owned, unread = intact('HMGET', KEYS[1], 'i', 'r', 'l', 'k') or {}, intact('SCARD', KEYS[3]), intact('HKEYS', KEYS[4])
if not s[1] or s[2] then
  return notified({'expired'})
end
if not owned or not unread then
  redis.call('HSET', KEYS[1], 'r', '1')
  return notified({'expired'})
end
local now = clock(ARGV[1])
redis.call('ZADD', KEYS[2], now + s[3], ARGV[2])
redis.call('HSET', KEYS[1], 'u', hear(now, s[3]))
local runs = unserved(KEYS[2], KEYS[7], s[4] or '', now, s[3], tonumber(ARGV[3]))
local restored = restore(KEYS[7], s[1], now, s[3], tonumber(ARGV[4]))
local answer = {
  'ok', owned, redis.call('ZRANGE', KEYS[5], '0', '0', 'WITHSCORES')[2] or '',
  redis.call('ZRANGE', KEYS[6], '0', '0', 'WITHSCORES')[2] or '', #runs, #restored,
}
for _, more in ipairs({runs, restored, unread}) do
  for _, run in ipairs(more) do
    answer[#answer + 1] = run
  end
end
return answer
