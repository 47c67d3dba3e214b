-- Rebuild deletes and rewrites the data of a run other than its log, if that data is still as it
-- was seen.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 inbox  4 step data  5 extra  6 seen items of its
--       chain  7 routes  8 open runs  9 ended runs  10 ended runs whose purge is held back
--       11 active runs  12 latest runs  13 queue of its workflow ID  14 records  15 bodies of the
--       records  16 records by the time of their next action  17 and on: the sets in which the run
--       was found
-- ARGV  1 now  2 run  3 queue state  4 route  5 name of the route  6 priority  7 due  8 purge time
--       9 'h' if it is hidden  10 extra, or ''  11 the repairer  12 its owner  13 its workflow ID
--       as a key, or ''  14 the active run of the workflow ID as seen  15 its latest run as seen
--       16 'l' if this is the latest run  17 'h' if it was seen as hidden
--       18 to 27 the number of each of the following: reasons, fields of the metadata as seen,
--       fields to be written, sets, items to remember, step data, items to drop, records to be
--       removed (ID, state, body, both '' if absent), records to be written (ID, receiver, body),
--       records to be confirmed; the second, third and fifth to seventh in pairs, sets by their
--       members
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a run must be in exactly one queue state, what was sent to it or by it must be
-- kept exactly once, and a workflow ID decides which run may start. Of any number of repairs one
-- may be made: the metadata is compared field by field, and differs afterwards because the epoch
-- rises. The epoch also fences an owner: an earlier commit has changed the metadata, so that
-- Rebuild writes nothing, and a later one is refused.
--
-- Parts: tag intact clock header ready park expel leave trail kept remembered reschedule outbox records send place

local meta, run, queue_state, route, wid = KEYS[1], ARGV[2], ARGV[3], ARGV[4], ARGV[13]
local at, first = 28, {}
for i, width in ipairs({1, 2, 2, 1, 2, 2, 2, 3, 3, 1}) do
  first[i] = at
  at = at + width * tonumber(ARGV[17 + i])
end
local reasons, seen, fields, sets, remember, data, drop, removes, writes, confirms = unpack(first)
local member_count, write_count = tonumber(ARGV[21]), tonumber(ARGV[26])

-- Guards: nothing is written before all of them have passed.

local there, n, watched = {}, 0, {}
local raw = redis.call('HGETALL', KEYS[ARGV[17] == 'h' and 2 or 1])
if (ARGV[17] == 'h' or #raw == 0) and redis.call('EXISTS', KEYS[ARGV[17] == 'h' and 1 or 2]) == 1 then
  return {'moved'} -- the run was rebuilt after it was read
end
for i = 1, #raw, 2 do
  if raw[i] == 'y' or raw[i] == 'Y' then
    watched[raw[i]] = raw[i + 1]
  else
    there[raw[i]] = raw[i + 1]
    n = n + 1
  end
end
if n ~= tonumber(ARGV[19]) then
  return {'moved'}
end
for i = seen, fields - 1, 2 do
  if there[ARGV[i]] ~= ARGV[i + 1] then
    return {'moved'}
  end
end
for i = drop, removes - 1, 2 do
  if redis.call('LINDEX', KEYS[3], ARGV[i]) ~= ARGV[i + 1] then
    return {'moved'}
  end
end
local active = wid ~= '' and redis.call('HGET', KEYS[11], wid) or ''
local latest = wid ~= '' and redis.call('HGET', KEYS[12], wid) or ''
if wid ~= '' and (queue_state == '5' and (active == '' or active == run)
  or queue_state < '5' and active ~= ARGV[14] and active ~= run
  or ARGV[16] == 'l' and latest ~= ARGV[15] and latest ~= run) then
  return {'moved'}
end
local removed = {}
for i = removes, writes - 1, 3 do
  local known, body = redis.call('HGET', KEYS[14], ARGV[i]) or '', redis.call('HGET', KEYS[15], ARGV[i]) or ''
  if known ~= ARGV[i + 1] or body ~= ARGV[i + 2] or known .. body == '' then
    return {'moved'}
  end
  removed[ARGV[i]] = true
end
for i = writes, confirms - 1, 3 do
  if redis.call('HEXISTS', KEYS[14], ARGV[i]) == 1 and not removed[ARGV[i]] then
    return {'moved'}
  end
end
for i = confirms, #ARGV do
  if there.B ~= ARGV[i] and math.max(redis.call('ZSCORE', KEYS[6], ARGV[i]) or 0, redis.call('ZSCORE', tag .. 's:' .. run, ARGV[i]) or 0) < kept then
    return {'moved'}
  end
end

-- Delete everything except the data that no log contains.

local now = clock(ARGV[1])
for i = reasons, seen - 1 do
  trail(run, ARGV[i], ARGV[11], ARGV[12], now, there.H)
end
expel(run, 17, sets, member_count)
if queue_state_of(there.H) and there.p and there.c then -- the index may contain an entry that a heartbeat has restored
  displace(run, queue_state_of(there.H), there.c, there.p, there.F or '')
end
redis.call('DEL', meta, KEYS[2], KEYS[5])
for i = drop, removes - 1, 2 do
  redis.call('LSET', KEYS[3], ARGV[i], '')
end
if drop < removes then
  redis.call('LREM', KEYS[3], '0', '')
end
for i = removes, writes - 1, 3 do
  local order = read_record(ARGV[i + 1])
  redis.call('HDEL', KEYS[14], ARGV[i])
  redis.call('HDEL', KEYS[15], ARGV[i])
  if order then
    redis.call('ZREM', KEYS[16], order .. run .. ARGV[i])
  end
end

-- Write the run anew.

if ARGV[9] == 'h' then
  meta = KEYS[2]
end
for i = fields, sets - 1, 2 do
  redis.call('HSET', meta, ARGV[i], ARGV[i + 1])
end
if ARGV[10] ~= '' then
  redis.call('SET', KEYS[5], ARGV[10])
end
redis.call('HSET', KEYS[7], route, ARGV[5])
for i = remember, data - 1, 2 do
  redis.call('ZADD', KEYS[6], 'NX', ARGV[i + 1], ARGV[i])
end
send(run, writes, write_count, now, prepare_records(run, writes, write_count))

local m = redis.call('HMGET', meta, 'a', 'g', 'w', 'i', 'h', 'H')
local created, group, chain, header = m[1], m[2], m[5], m[6]
for i = confirms, #ARGV do
  unkeep(run, ARGV[i])
  if chain then
    unkeep(chain, ARGV[i])
  end
  if there.B == ARGV[i] then
    redis.call('HDEL', meta, 'B')
  end
end
if group or there.g then
  -- Part: failure_group
  if there.g then
    leave_failure_group(run, there.g)
  end
  if group then
    join_failure_group(run, group, created)
  end
end
if ARGV[9] ~= 'h' then
  -- Part: label
  for _, set in ipairs(label_sets(run, m[3], m[4])) do
    intact('ZADD', set, created, run)
  end
end
if wid ~= '' and queue_state < '5' then
  redis.call('HSET', KEYS[11], wid, run)
elseif wid ~= '' and queue_state == '5' then
  local times = 0 -- the run keeps its first position in the queue
  for _, one in ipairs(redis.call('LRANGE', KEYS[13], '0', '-1')) do
    times = one == run and times + 1 or times
  end
  if times == 0 then
    redis.call('RPUSH', KEYS[13], run)
  elseif times > 1 then
    redis.call('LREM', KEYS[13], 1 - times, run)
  end
elseif wid ~= '' and ARGV[16] == 'l' then
  redis.call('HSET', KEYS[12], wid, run)
end

header = with_flag(header, has_unread, queue_state ~= '6' and redis.call('EXISTS', KEYS[3]) == 1)
redis.call('HSET', meta, 'H', header)
if queue_state == '6' then
  redis.call('DEL', KEYS[3], KEYS[4])
  redis.call('ZADD', KEYS[10], ARGV[8], run)
  if ARGV[9] ~= 'h' then
    redis.call('ZADD', KEYS[9], created, run)
  end
else
  redis.call('ZADD', KEYS[8], created, run)
  for i = data, drop - 1, 2 do
    redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
  end
  for name, till in pairs(watched) do
    redis.call('HSET', meta, name, till)
  end
end
reschedule(run)
if chain then
  reschedule(chain)
end

local value, waits = queue_state == '3' and ARGV[7] or '', false
if queue_state == '1' and flagged(header, is_limited) then
  -- Part: limit
  local l = uses_of(run)
  waits = not queues(l) -- RepairLimits adds the run to its limiter queue and counts it for its fairness key
  value = (waits or l.key) and l.place or ''
  if not waits and value == '' then
    value = next_order()
    if l.key and not l.off then
      l.place = value
      save_uses(run, l)
    end
  end
elseif queue_state == '1' then
  value = next_order()
end
if queue_state < '5' then
  redis.call('HSET', meta, 'H', moved(header, queue_state), 'p', value)
end
if not waits then
  place(run, queue_state, route, ARGV[6], value, '')
end
redis.call('PUBLISH', tag .. 'frame:' .. run, '')
redis.call('PUBLISH', tag .. 'stream:' .. (chain or run), '')
return {'ok'}
