-- RepairRun writes what is kept of a run again, and puts the run into its queue state, if
-- its metadata is what was seen.
--
-- KEYS  1 metadata  2 metadata of a hidden run  3 inbox  4 step data  5 extra
--       6 seen items  7 routes  8 open runs  9 done runs
--       10 done runs that are held back
--       11 and on: the sets that the run was seen in
-- ARGV  1 now  2 run  3 queue state  4 route  5 name of the route  6 priority
--       7 due  8 when it may be purged  9 'h': it is hidden  10 extra, or ''
--       11 reason  12 by whom  13 its owner
--       14 to 19 how many of each follow: fields of the metadata as it was seen,
--       fields to be written, sets, items to remember, step data, items to drop;
--       all but sets (members) in pairs
--
-- Returns {'ok'} or {'moved'}.
--
-- Atomic, because a run that others look for must be in one queue state, and of any
-- number of repairs one may be made: the metadata is compared, field by field, and
-- is another one afterwards.
--
-- Parts: tag intact clock header ready park expel trail kept remembered reschedule

local meta, run, queue_state, route = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
local at = 20
local function pairs_of(n)
  local all = {}
  for i = at, at + 2 * n - 1, 2 do
    table.insert(all, {ARGV[i], ARGV[i + 1]})
  end
  at = at + 2 * n
  return all
end
local seen, fields = pairs_of(tonumber(ARGV[14])), pairs_of(tonumber(ARGV[15]))
local members, sets = at, tonumber(ARGV[16])
at = at + sets
local remember, data, drop = pairs_of(tonumber(ARGV[17])), pairs_of(tonumber(ARGV[18])), pairs_of(tonumber(ARGV[19]))

local there = {}
local raw = redis.call('HGETALL', meta)
if #raw == 0 then
  raw = redis.call('HGETALL', KEYS[2])
end
local n, watched = 0, {}
for i = 1, #raw, 2 do
  if raw[i] == 'y' or raw[i] == 'Y' then
    watched[raw[i]] = raw[i + 1]
  else
    there[raw[i]] = raw[i + 1]
    n = n + 1
  end
end
if n ~= #seen then
  return {'moved'}
end
for _, f in ipairs(seen) do
  if there[f[1]] ~= f[2] then
    return {'moved'}
  end
end
for _, d in ipairs(drop) do
  if redis.call('LINDEX', KEYS[3], d[1]) ~= d[2] then
    return {'moved'}
  end
end

local now = clock(ARGV[1])
trail(run, ARGV[11], ARGV[12], ARGV[13], now, there.H)
expel(run, 11, members, sets)
redis.call('DEL', meta, KEYS[2], KEYS[5])
if ARGV[9] == 'h' then
  meta = KEYS[2]
end
for _, f in ipairs(fields) do
  redis.call('HSET', meta, f[1], f[2])
end
if ARGV[10] ~= '' then
  redis.call('SET', KEYS[5], ARGV[10])
end
redis.call('HSET', KEYS[7], route, ARGV[5])
for _, i in ipairs(remember) do
  redis.call('ZADD', KEYS[6], 'NX', i[2], i[1])
end
for _, d in ipairs(drop) do
  redis.call('LSET', KEYS[3], d[1], '')
end
if #drop > 0 then
  redis.call('LREM', KEYS[3], '0', '')
end

local created = redis.call('HGET', meta, 'a')
local group = redis.call('HGET', meta, 'g')
if group or there.g then
  -- Part: trouble
  if there.g then
    leave_trouble(run, there.g)
  end
  if group then
    join_trouble(run, group, created)
  end
end
if ARGV[9] ~= 'h' then
  -- Part: label
  local labelled = redis.call('HMGET', meta, 'w', 'i')
  for _, set in ipairs(label_sets(run, labelled[1], labelled[2])) do
    intact('ZADD', set, created, run)
  end
end
local header = with_flag(redis.call('HGET', meta, 'H'), has_unread, queue_state ~= '6' and redis.call('EXISTS', KEYS[3]) == 1)
redis.call('HSET', meta, 'H', header)
if queue_state == '6' then
  redis.call('DEL', KEYS[3], KEYS[4])
  redis.call('ZADD', KEYS[10], ARGV[8], run)
  reschedule(run)
  if ARGV[9] ~= 'h' then
    redis.call('ZADD', KEYS[9], created, run)
  end
else
  redis.call('ZADD', KEYS[8], created, run)
  for _, one in ipairs(data) do
    redis.call('HSET', KEYS[4], one[1], one[2])
  end
  for name, till in pairs(watched) do
    redis.call('HSET', meta, name, till)
  end
end
local l, lined, save
if flagged(header, is_limited) then
  -- Part: limit
  l, save = uses_of(run), save_uses
  lined = not queues(l)
end
if queue_state == '1' and lined then
  redis.call('HSET', meta, 'H', moved(header, '1'), 'p', l.place) -- RepairLimits lines it up
elseif queue_state == '1' and l then
  local order = l.key and l.place ~= '' and l.place or next_order()
  redis.call('HSET', meta, 'H', moved(header, '1'), 'p', order)
  if l.key and not l.off then -- RepairLimits counts it in its flow
    l.place = order
    save(run, l)
  end
  enqueue(run, route, ARGV[6], order)
elseif queue_state == '1' then
  make_ready(run, header, route, ARGV[6])
elseif queue_state == '2' then
  local owner = redis.call('HGET', meta, 'p')
  redis.call('SADD', tag .. 'o:' .. owner, run)
  if flagged(header, has_unread) then
    redis.call('HSET', tag .. 'a:' .. owner, run, '1')
    redis.call('PUBLISH', tag .. 'mail:' .. owner, '')
  end
elseif queue_state == '3' then
  park(run, header, route, ARGV[7])
elseif queue_state == '4' then
  redis.call('ZADD', tag .. 'b:' .. route, '0', ' ' .. run)
  redis.call('PUBLISH', tag .. 'hint', 'b' .. route)
end
redis.call('PUBLISH', tag .. 'frame:' .. run, '')
redis.call('PUBLISH', tag .. 'stream:' .. (redis.call('HGET', meta, 'h') or run), '')
return {'ok'}
