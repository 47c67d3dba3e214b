-- Deliver puts an item into the inbox of a run.
--
-- KEYS  1 metadata
-- ARGV  1 now  2 run  3 deadline, or '0'  4 id of the item  5 the item
--
-- Returns {'accepted'}, {'stale'}, {'unknown'}, {'ended', status} or {'later'}.
--
-- Atomic, because accepting is two writes (inbox and seen) and a parked run must
-- become ready with them: an item is never in an inbox that nobody will read.
-- What was accepted stays accepted, also after the run has ended.
--
-- Parts: clock ready item push

local now = clock(ARGV[1])
if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
  return {'stale'}
end
local m = redis.call('HMGET', KEYS[1], 'p', 'h', 'z', 's')
if not m[1] then
  return {'unknown'}
end
if redis.call('ZSCORE', tag .. 's:' .. (m[2] or ARGV[2]), ARGV[4]) then
  return {'accepted'}
end
if m[1] == '6' then
  return {'ended', m[4]}
end
if m[3] then
  return {'later'}
end
push(ARGV[2], ARGV[4], ARGV[5], now)
return {'accepted'}
