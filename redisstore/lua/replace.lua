-- Replace writes one value if the current one is the one that was seen.
--
-- KEYS  1 the key
-- ARGV  1 'hash', 'zset', 'string', 'stream' for the first entry of a stream, or 'type' for the
--       type of the key  2 the field or member  3 the value as seen, '' if absent  4 the value to
--       be written, '' to remove it
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because the value is compared and written in one action.
--
-- Parts: none

local key, kind, field, value = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local now
if kind == 'hash' then
  now = redis.call('HGET', key, field)
elseif kind == 'zset' then
  now = redis.call('ZSCORE', key, field)
elseif kind == 'stream' then
  local first = redis.call('XRANGE', key, '-', '+', 'COUNT', '1')[1]
  now = first and first[1]
elseif kind == 'type' then
  now = redis.call('TYPE', key).ok
else
  now = redis.call('GET', key)
end
local same = (now or '') == ARGV[3]
if kind == 'zset' and now and ARGV[3] ~= '' then
  same = tonumber(now) == tonumber(ARGV[3]) -- servers format the same number differently
end
if not same or ARGV[3] == value and now ~= '' then
  return {'moved'}
end
if kind == 'hash' then
  if value == '' then
    redis.call('HDEL', key, field)
  else
    redis.call('HSET', key, field, value)
  end
elseif kind == 'zset' then
  if value == '' then
    redis.call('ZREM', key, field)
  else
    redis.call('ZADD', key, value, field)
  end
elseif kind == 'stream' then
  redis.call('XTRIM', key, 'MINID', value)
elseif value == '' then
  redis.call('DEL', key)
else
  redis.call('SET', key, value)
end
return {'ok'}
