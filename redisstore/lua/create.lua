-- Create stores a new run, or says what is in its way.
--
-- KEYS  1 metadata  2 log  3 open runs  4 classes  5 active runs  6 latest runs
--       7 line of the workflow id  8 extra  9 metadata of a hidden run
--       10 later runs of each chain
-- ARGV  1 now  2 run  3 class  4 name of the class  5 frame  6 last event
--       7 cid  8 priority  9 due at  10 delay  11 workflow id as a key, or ''
--       12 policy for an active run  13 policy for a finished run
--       14 id of the cancel item  15 the cancel item  16 extra, or ''
--       17 status  18 status of success  19 chain of a later run, or ''
--       20 and on: more metadata, in pairs
--
-- Returns {'created'}, {'existing', run}, {'active', run} or
-- {'refused', run, status}.
--
-- Atomic, because the policy is judged and the workflow id taken in one action:
-- of any number of starters one gets it. A run that is there already was created
-- by an earlier try, which is asked before anything else.
--
-- Parts: clock ready park compact item push

local meta, run, class, wid = KEYS[1], ARGV[2], ARGV[3], ARGV[11]
if redis.call('EXISTS', meta, KEYS[9]) > 0 then
  return {'created'}
end
local active = wid ~= '' and redis.call('HGET', KEYS[5], wid)
if active and ARGV[12] ~= '2' then
  return {ARGV[12] == '0' and 'existing' or 'active', active}
end
if not active and wid ~= '' and ARGV[13] ~= '0' then
  local last = redis.call('HGET', KEYS[6], wid)
  local status = last and redis.call('HGET', tag .. 'm:' .. last, 's')
  if status and (ARGV[13] == '2' or status == ARGV[18]) then
    return {'refused', last, status}
  end
end

local now = clock(ARGV[1])
redis.call('XADD', KEYS[2], '1-0', 'f', ARGV[5])
redis.call('HSET', meta, 'p', 5, 'l', ARGV[7], 'e', 0, 'q', ARGV[6], 'n', 1, 'g', #ARGV[5],
  's', ARGV[17], 'c', class, 'a', now, unpack(ARGV, 20))
if ARGV[8] ~= '0' then
  redis.call('HSET', meta, 'r', ARGV[8])
end
if ARGV[16] ~= '' then
  redis.call('SET', KEYS[8], ARGV[16])
end
if ARGV[19] ~= '' then
  redis.call('HSET', meta, 'h', ARGV[19])
  redis.call('HINCRBY', KEYS[10], ARGV[19], 1)
end
redis.call('ZADD', KEYS[3], 0, run)
redis.call('HSETNX', KEYS[4], class, ARGV[4])
compact(run, #ARGV[5])

if active then
  local before = redis.call('LRANGE', KEYS[7], 0, -1)
  table.insert(before, 1, active)
  for _, other in ipairs(before) do
    local chain = redis.call('HGET', tag .. 'm:' .. other, 'h') or other
    if not redis.call('ZSCORE', tag .. 's:' .. chain, ARGV[14]) then
      push(other, ARGV[14], ARGV[15], now)
    end
  end
  redis.call('RPUSH', KEYS[7], run)
  return {'created'}
end
if wid ~= '' then
  redis.call('HSET', KEYS[5], wid, run)
end
local due = tonumber(ARGV[9])
if ARGV[10] ~= '0' then
  due = math.max(due, now + ARGV[10])
end
if due > now then
  park(run, class, string.format('%.0f', due))
else
  make_ready(run, class, ARGV[8])
end
return {'created'}
