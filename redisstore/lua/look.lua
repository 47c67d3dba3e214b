-- Look tells a session what there is for it: a wake of one of its classes, which
-- it takes, and new mail, which is told once.
--
-- KEYS  1 wakes  2 timers  3 mail of the session
-- ARGV  the classes
--
-- Returns {1 if a wake was taken, next due time, run with new mail, …}.
--
-- Atomic, because a wake goes to one session, and mail that comes meanwhile must
-- not be taken for told.
--
-- Parts: none

local answer = {0, redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or ''}
for _, class in ipairs(ARGV) do
  if redis.call('HDEL', KEYS[1], class) == 1 then
    answer[1] = 1
    break
  end
end
local mail = redis.call('HGETALL', KEYS[3])
for i = 1, #mail, 2 do
  if mail[i + 1] == '1' then
    redis.call('HSET', KEYS[3], mail[i], 0)
    table.insert(answer, mail[i])
  end
end
return answer
