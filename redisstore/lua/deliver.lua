-- Deliver puts an item into the inbox of a run, or of the last run of its chain.
-- It mirrors Deliver of package protocol.
--
-- KEYS  1 metadata
-- ARGV  1 now  2 run  3 deadline, or '0'  4 ID of the item  5 the item  6 'r' if it is for this run
--       only  7 'k' to remember it until Confirm  8 'u' if it is urgent
--
-- Returns {'accepted', run}, {'stale'}, {'unknown'}, {'ended', run, status} or {'later'}. It fails
-- with LOST if a repair must rewrite the metadata of the run or the link to the last run.
--
-- Atomic, because an accepted item is written to two keys (inbox and seen) and a parked run must
-- become ready with them: no item stays in an inbox that is never read. An accepted item stays
-- accepted after the end of the run. The keys of the last run are built because it is found here.
-- If the last run is purged, the addressed run answers for the chain. Lost data is never treated as
-- purged, because the sender would give up while a repair is in progress.
--
-- Parts: tag clock header ready item kept push lost

local now, run = clock(ARGV[1]), ARGV[2]
if ARGV[3] ~= '0' and now > tonumber(ARGV[3]) then
  return {'stale'}
end
local m = redis.call('HMGET', KEYS[1], 'H', 'h', 'N')
if m[3] and ARGV[6] ~= 'r' then
  local chain = m[2] or run
  local last = redis.call('HGET', tag .. 'T', chain)
  local l = last and redis.call('HMGET', tag .. 'm:' .. last, 'H', 'h') or {}
  if l[1] then
    run, m = last, l
  elseif last and lost(last) or not last and redis.call('HEXISTS', tag .. 'h', chain) == 1 then
    return lost_error(last or run)
  end
end
local header, queue_state = m[1], queue_state_of(m[1])
if not queue_state then
  local hidden = redis.call('HMGET', tag .. 'g:' .. run, 'H', 'h')
  if hidden[1] and redis.call('ZSCORE', tag .. 's:' .. (hidden[2] or run), ARGV[4]) then
    return {'accepted', run}
  end
  return lost(run) and lost_error(run) or {'unknown'}
end
local chain = m[2] or run
if redis.call('ZSCORE', tag .. 's:' .. chain, ARGV[4]) then
  return {'accepted', run}
end
if queue_state == '6' then
  return {'ended', run, string.byte(header, 50)}
end
if flagged(header, is_closing) then
  return {'later'}
end
push(run, ARGV[4], ARGV[5], now, ARGV[7] == 'k', ARGV[8] == 'u')
if ARGV[7] == 'k' and ARGV[2] ~= chain then -- a later run of the chain may answer a repeated request of the sender
  redis.call('ZADD', tag .. 's:' .. ARGV[2], now + kept, ARGV[4])
  local at = redis.call('ZSCORE', tag .. 'd', ARGV[2])
  if at then
    redis.call('ZREM', tag .. 'd', ARGV[2])
    redis.call('ZADD', tag .. 'G', at, ARGV[2])
  end
end
return {'accepted', run}
