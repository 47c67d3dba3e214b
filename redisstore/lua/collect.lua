-- Collect adds a start to the run that collects the starts of its key, or creates this run.
-- It mirrors collect of package protocol.
--
-- KEYS  1 metadata
-- ARGV  1 now  2 key  3 'k' to keep the items of all starts  4 delay from the last start until the
--       run is ready  5 maximum delay from the first start  6 number of items that makes it ready
--       7 ID of the item  8 the item  9 how long it is remembered that a start has joined
--       10 and on: the run in the format of add_run; its header has the flag for an item
--
-- Returns 1 if the run is created, {'too heavy', …} or {'full', …} as Create does, or {'existing',
-- run}: the run that the start has joined in this or an earlier attempt. It fails with LOST if the
-- run was created and has lost its metadata since.
--
-- Atomic, because of any number of concurrent starts only one may create a run, and a start that
-- joins must be in the inbox of a run that is not claimed yet. A claim changes the epoch and leaves
-- hash J as it is: an entry for a run with an epoch is ignored, and is removed at the end of the
-- run. The inbox is written first: if a write fails, the request is sent again and repeats all of
-- them.
--
-- Parts: tag intact clock header ready park item kept push lost

local key, first = ARGV[2], 10
local run, route, frame, header, priority = ARGV[first], ARGV[first + 1], ARGV[first + 3], ARGV[first + 4], ARGV[first + 5]
if redis.call('EXISTS', KEYS[1], tag .. 'g:' .. run) > 0 then
  return 1
end
local joined = redis.call('GET', tag .. 'J:' .. run)
if joined then
  return {'existing', joined}
end
if lost(run) then
  return lost_error(run)
end
local now, at = clock(ARGV[1])

-- due returns the time at which a run that was created at the given time becomes ready if a start
-- joins the run now.
local function due(created)
  local quiet, last = now + ARGV[4], created + ARGV[5]
  return string.format('%.0f', (ARGV[5] == '0' or ARGV[4] ~= '0' and quiet < last) and quiet or last)
end

local collects = redis.call('HGET', tag .. 'J', key)
local m = collects and redis.call('HMGET', tag .. 'm:' .. collects, 'H', 'p', 'c', 'r', 'a', 'k') or {}
local queue_state, full = queue_state_of(m[1]), tonumber(ARGV[6])
if m[6] == key and (queue_state == '1' or queue_state == '3') and string.sub(m[1], 18, 25) == nobody then
  local meta, inbox, seen = tag .. 'm:' .. collects, tag .. 'i:' .. collects, tag .. 's:' .. collects
  if ARGV[3] ~= 'k' then
    redis.call('LSET', inbox, '0', ARGV[8])
  elseif not redis.call('ZSCORE', seen, ARGV[7]) then
    redis.call('RPUSH', inbox, ARGV[8])
  end
  redis.call('ZADD', seen, at, ARGV[7])
  forget(seen, inbox, now)
  redis.call('SET', tag .. 'J:' .. run, collects, 'PX', ARGV[9])
  if full > 0 and redis.call('LLEN', inbox) >= full then
    -- Part: collect
    stop_collecting(collects, key)
    if queue_state == '3' then
      make_ready(collects, m[1], m[3], m[4])
      redis.call('ZREM', tag .. 't', collects)
    end
  elseif queue_state == '3' and due(m[5]) ~= m[2] then
    park(collects, m[1], m[3], due(m[5]))
  end
  return {'existing', collects}
end

if flagged(header, is_limited) then
  -- Part: intact limit guard
  local refused = guard_uses(uses_in(first).uses, false, false)
  if refused then
    return refused
  end
end
-- Part: compact sets enlist add
local inbox, seen = tag .. 'i:' .. run, tag .. 's:' .. run
redis.call('DEL', inbox, seen)
redis.call('RPUSH', inbox, ARGV[8])
redis.call('ZADD', seen, at, ARGV[7])
header = moved(header, '3')
if full == 1 then
  add_run(first, at, header, '0')
  make_ready(run, header, route, priority ~= '0' and priority)
else
  redis.call('HSET', tag .. 'J', key, run)
  add_run(first, at, header, due(now))
  redis.call('HSET', KEYS[1], 'k', key)
  set_timer(run, route, due(now))
end
redis.call('HSETNX', tag .. 'k', route, ARGV[first + 2])
compact(run, #frame)
return 1
