-- RepairLinks changes the outbox of a run, and what others have left with the run, if
-- both are what was seen.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 records  4 what these say
--       5 records by when something is to be done for them
--       6 done runs by the time when they may be purged  7 those held back
-- ARGV  1 now  2 run  3 reason  4 by whom  5 its owner  6 to 8 how many of each
--       follow: records to be removed (id, what is known of it, what it says, both
--       '' if there is none), records to be written (id, receiver, body), records
--       to be confirmed (id)
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because of any number of repairs one may be made, and a run that has ended
-- must be held back from its purge as soon as it has a record.
--
-- Parts: tag intact clock header trail kept remembered reschedule outbox records send

local run = ARGV[2]
local removes, writes, confirms = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local meta = redis.call('EXISTS', KEYS[1]) == 1 and KEYS[1] or KEYS[2]
local m = redis.call('HMGET', meta, 'H', 'h', 'B')
if not m[1] and writes + confirms > 0 then
  return {'moved'}
end
local removed = {}
for i = 9, 8 + 3 * removes, 3 do
  local known, body = redis.call('HGET', KEYS[3], ARGV[i]) or '', redis.call('HGET', KEYS[4], ARGV[i]) or ''
  if known ~= ARGV[i + 1] or body ~= ARGV[i + 2] or known .. body == '' then
    return {'moved'}
  end
  removed[ARGV[i]] = true
end
local first = 9 + 3 * removes
for i = first, first + 3 * writes - 1, 3 do
  if redis.call('HEXISTS', KEYS[3], ARGV[i]) == 1 and not removed[ARGV[i]] then
    return {'moved'}
  end
end
local last = first + 3 * writes
local seen, own = tag .. 's:' .. (m[2] or run), tag .. 's:' .. run
for i = last, last + confirms - 1 do
  if m[3] ~= ARGV[i] and math.max(redis.call('ZSCORE', seen, ARGV[i]) or 0, redis.call('ZSCORE', own, ARGV[i]) or 0) < kept then
    return {'moved'}
  end
end

local now = clock(ARGV[1])
if m[1] then
  trail(run, ARGV[3], ARGV[4], ARGV[5], now, m[1])
end
for i = 9, 8 + 3 * removes, 3 do
  local order = read_record(ARGV[i + 1])
  redis.call('HDEL', KEYS[3], ARGV[i])
  redis.call('HDEL', KEYS[4], ARGV[i])
  if order then
    redis.call('ZREM', KEYS[5], order .. run .. ARGV[i])
  end
end
send(run, first, writes, now, prepare_records(run, first, writes))
if writes > 0 and queue_state_of(m[1]) then
  redis.call('HSET', meta, 'H', with_flag(m[1], has_rest, true))
end
for i = last, last + confirms - 1 do
  unkeep(run, ARGV[i])
  if m[2] then
    unkeep(m[2], ARGV[i])
  end
  if m[3] == ARGV[i] then
    redis.call('HDEL', meta, 'B')
  end
end
local at = redis.call('ZSCORE', KEYS[6], run)
if at then
  redis.call('ZREM', KEYS[6], run)
  redis.call('ZADD', KEYS[7], at, run)
end
reschedule(run)
if m[2] then
  reschedule(m[2])
end
return {'ok'}
