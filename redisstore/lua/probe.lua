-- Probe returns the pending work of a session: notifications for its routes, which it takes, and
-- runs with new items, each of which is reported once.
--
-- KEYS  1 pending notifications  2 timers  3 runs of the session with unread items
-- ARGV  the routes
--
-- Returns {number of notifications taken, next due time, run with new items, …}.
--
-- Atomic, because a notification is taken by one session only, and an item that arrives meanwhile
-- must not be marked as reported. Overwritten keys are reported by claims and heartbeats.
--
-- Parts: intact

local answer = {0, redis.call('ZRANGE', KEYS[2], '0', '0', 'WITHSCORES')[2] or ''}
if #ARGV > 0 then
  answer[1] = intact('HDEL', KEYS[1], unpack(ARGV)) or 0
end
local unread = intact('HGETALL', KEYS[3]) or {}
for i = 1, #unread, 2 do
  if unread[i + 1] == '1' then
    redis.call('HSET', KEYS[3], unread[i], '0')
    table.insert(answer, unread[i])
  end
end
return answer
