-- Look tells a session what there is for it: wakes of its routes, which it takes,
-- and new mail, which is told once.
--
-- KEYS  1 wakes  2 timers  3 mail of the session
-- ARGV  the routes
--
-- Returns {how many wakes were taken, next due time, run with new mail, …}.
--
-- Atomic, because a wake goes to one session, and mail that comes meanwhile must
-- not be taken for told. Of keys that were overwritten claims and heartbeats tell.
--
-- Parts: intact

local answer = {0, redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or ''}
if #ARGV > 0 then
  answer[1] = intact('HDEL', KEYS[1], unpack(ARGV)) or 0
end
local mail = intact('HGETALL', KEYS[3]) or {}
for i = 1, #mail, 2 do
  if mail[i + 1] == '1' then
    redis.call('HSET', KEYS[3], mail[i], 0)
    table.insert(answer, mail[i])
  end
end
return answer
