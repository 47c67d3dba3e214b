-- Look tells a session what there is for it: wakes of its routes, which it takes,
-- and new items, which are told once.
--
-- KEYS  1 wakes  2 timers  3 runs of the session with unread items
-- ARGV  the routes
--
-- Returns {how many wakes were taken, next due time, run with new items, …}.
--
-- Atomic, because a wake goes to one session, and what comes meanwhile must
-- not be taken for told. Of keys that were overwritten claims and heartbeats tell.
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
