-- Create stores a new run, or says what is in its way.
--
-- KEYS  1 metadata  2 log  3 open runs  4 classes  5 active runs  6 latest runs
--       7 line of the workflow id  8 extra  9 metadata of a hidden run
-- ARGV  1 now  2 deadline, or '0'  3 due at  4 delay  5 workflow id as a key,
--       or ''  6 policy for an active run  7 policy for a finished run
--       8 id of the cancel item  9 the cancel item  10 status of success
--       11 and on: the run, as add_run wants it
--
-- Returns {'stale'}, {'created'}, {'existing', run}, {'active', run} or
-- {'refused', run, status}.
--
-- Atomic, because the policy is judged and the workflow id taken in one action:
-- of any number of starters one gets it. A run that is there already was created
-- by an earlier try, which is asked before the policies.
--
-- Parts: tag clock head ready compact add

local wid = ARGV[5]
local now, at = clock(ARGV[1])
if ARGV[2] ~= '0' and now > tonumber(ARGV[2]) then
  return {'stale'}
end
if redis.call('EXISTS', KEYS[1], KEYS[9]) > 0 then
  return {'created'}
end
local active = wid ~= '' and redis.call('HGET', KEYS[5], wid)
if active and ARGV[6] ~= '2' then
  return {ARGV[6] == '0' and 'existing' or 'active', active}
end
if not active and wid ~= '' and ARGV[7] ~= '0' then
  local last = redis.call('HGET', KEYS[6], wid)
  local head = last and redis.call('HGET', tag .. 'm:' .. last, 'H')
  if place_of(head) and (ARGV[7] == '2' or string.sub(head, 50, 50) == ARGV[10]) then
    return {'refused', last, string.byte(head, 50)}
  end
end

local run, class, head = ARGV[11], ARGV[12], ARGV[15]
if active then
  add_run(11, at, moved(head, '5'), '')
  -- Part: item kept push
  local before = redis.call('LRANGE', KEYS[7], 0, -1)
  table.insert(before, 1, active)
  for _, other in ipairs(before) do
    local chain = redis.call('HGET', tag .. 'm:' .. other, 'h') or other
    if not redis.call('ZSCORE', tag .. 's:' .. chain, ARGV[8]) then
      push(other, ARGV[8], ARGV[9], now)
    end
  end
  redis.call('RPUSH', KEYS[7], run)
  redis.call('HSETNX', KEYS[4], class, ARGV[13])
  compact(run, #ARGV[14])
  return {'created'}
end
local due = tonumber(ARGV[3])
if ARGV[4] ~= '0' then
  due = math.max(due, now + ARGV[4])
end
if due > now then
  -- Part: park
  due = string.format('%.0f', due)
  add_run(11, at, moved(head, '3'), due)
  redis.call('HSETNX', KEYS[4], class, ARGV[13])
  set_timer(run, class, due)
  compact(run, #ARGV[14])
else
  -- Whoever wakes a class names it. What is claimed soon is compacted when it ends.
  if line_up(run, class, ARGV[16] ~= '0' and ARGV[16], add_run(11, at, head)) then
    redis.call('HSETNX', KEYS[4], class, ARGV[13])
  elseif redis.call('ZCOUNT', tag .. 'r:' .. class, '-inf', '+inf') > 128 then
    compact(run, #ARGV[14])
  end
end
if wid ~= '' then
  redis.call('HSET', KEYS[5], wid, run)
end
return {'created'}
