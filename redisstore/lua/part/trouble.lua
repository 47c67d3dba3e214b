-- The groups of trouble: field g of the metadata of a run is its group, set I: has the runs of a
-- group, and U those of all, by their creation. Of each group hash H has when the first run has come
-- into it, when the last one, how often one has, and what is common to them; set E has the groups by
-- the time of the last one, and set Z those of them in which there is no run.

-- enter_trouble records that a run comes into a group. If that is new two others are forgotten in
-- which there is no run, and into which none has come for so many milliseconds.
local function enter_trouble(group, about, kept, now, at)
  local known = intact('HGET', tag .. 'H', group)
  local first, last, total = string.match(known or '', '^(%d+) (%d+) (%d+) ')
  if last and tonumber(last) > now then
    at = last
  end
  intact('HSET', tag .. 'H', group, string.format('%s %s %.0f ', first or at, at, (total or 0) + 1) .. about)
  intact('ZADD', tag .. 'E', at, group)
  if known then
    return
  end
  for _, idle in ipairs(intact('ZRANGEBYSCORE', tag .. 'Z', '-inf', string.format('(%.0f', now - kept), 'LIMIT', '0', '2') or {}) do
    intact('HDEL', tag .. 'H', idle)
    intact('ZREM', tag .. 'E', idle)
    intact('ZREM', tag .. 'Z', idle)
  end
end

-- leave_trouble takes a run out of a group. The caller changes the metadata.
local function leave_trouble(run, group)
  intact('ZREM', tag .. 'U', run)
  intact('ZREM', tag .. 'I:' .. group, run)
  local last = intact('EXISTS', tag .. 'I:' .. group) == 0 and intact('ZSCORE', tag .. 'E', group)
  if last then
    intact('ZADD', tag .. 'Z', last, group)
  end
end

-- join_trouble puts a run into a group. The caller changes the metadata.
local function join_trouble(run, group, created)
  intact('ZADD', tag .. 'U', created, run)
  intact('ZADD', tag .. 'I:' .. group, created, run)
  intact('ZREM', tag .. 'Z', group)
end

-- relabel gives a run a group, or '' for none. It comes into it if it was not in it.
local function relabel(run, group, about, kept, now, at)
  local meta = tag .. 'm:' .. run
  local m = redis.call('HMGET', meta, 'g', 'a')
  if (m[1] or '') == group then
    return
  end
  if group ~= '' then
    enter_trouble(group, about, kept, now, at)
  end
  if m[1] then
    leave_trouble(run, m[1])
  end
  if group == '' then
    redis.call('HDEL', meta, 'g')
  else
    redis.call('HSET', meta, 'g', group)
    join_trouble(run, group, m[2])
  end
end
