-- ClaimRun gives one named run to a session.
-- It mirrors ClaimRun of package protocol.
--
-- KEYS  1 the session  2 metadata  3 timers
-- ARGV  1 session  2 token  3 run
--
-- Returns {'ok', run}, {'expired'}, {'unknown'}, {'ended', status}, {'owned'} or
-- {'queued'}.
--
-- Atomic, because the run leaves its queue_state and gets its owner in one action. A
-- second execution with the same token answers what the first one has given out.
--
-- Parts: tag intact header ready grant

local s = redis.call('HMGET', KEYS[1], 'i', 'r')
if not s[1] or s[2] then
  return {'expired'}
end
local run = ARGV[3]
local m = redis.call('HMGET', KEYS[2], 'H', 'p', 'c', 'F')
local header, queue_state, route = m[1], queue_state_of(m[1]), m[3]
if not queue_state then
  return {'unknown'}
elseif queue_state == '6' then
  return {'ended', string.byte(header, 50)}
elseif queue_state == '2' then
  if m[2] == ARGV[1] and string.sub(header, 10, 17) == ARGV[2] then
    return {'ok', granted(run, KEYS[2], header, route)}
  end
  return {'owned'}
elseif queue_state == '5' then
  return {'queued'}
end
if queue_state == '1' then
  redis.call('ZREM', tag .. 'r:' .. route, m[2] .. run)
elseif queue_state == '3' then
  redis.call('ZREM', KEYS[3], run)
else
  redis.call('ZREM', tag .. 'b:' .. route, (m[4] or '') .. ' ' .. run)
end
redis.call('SADD', tag .. 'o:' .. ARGV[1], run)
return {'ok', grant(run, KEYS[2], ARGV[1], ARGV[2], header, route, 0)}
