-- ClaimRun gives one named run to a session.
--
-- KEYS  1 the session  2 metadata  3 timers
-- ARGV  1 session  2 token  3 run
--
-- Returns {'ok', run}, {'expired'}, {'unknown'}, {'ended', status}, {'owned'} or
-- {'lined'}.
--
-- Atomic, because the run leaves its place and gets its owner in one action. A
-- second execution with the same token answers what the first one has given out.
--
-- Parts: tag ready grant

local s = redis.call('HMGET', KEYS[1], 'i', 'r')
if not s[1] or s[2] then
  return {'expired'}
end
local run = ARGV[3]
local m = redis.call('HMGET', KEYS[2], 'w', 'e', 'v', 'n', 'q', 'l', 'c', 'g', 'p', 's', 'k', 'o', 't', 'z')
local place = m[9]
if not place then
  return {'unknown'}
elseif place == '6' then
  return {'ended', m[10]}
elseif place == '2' then
  if m[12] == ARGV[1] and m[13] == ARGV[2] then
    return {'ok', granted(run, m)}
  end
  return {'owned'}
elseif place == '5' then
  return {'lined'}
end
if place == '1' then
  redis.call('ZREM', tag .. 'r:' .. m[7], m[11] .. run)
elseif place == '3' then
  redis.call('HDEL', KEYS[2], 'd')
  redis.call('ZREM', KEYS[3], run)
else
  redis.call('HDEL', KEYS[2], 'f')
  redis.call('HDEL', tag .. 'b:' .. m[7], run)
end
redis.call('SADD', tag .. 'o:' .. ARGV[1], run)
return {'ok', grant(run, ARGV[1], ARGV[2], m, redis.call('EXISTS', tag .. 'i:' .. run), m[14])}
