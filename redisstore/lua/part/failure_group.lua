-- The failure groups. Field g of the metadata of a run is its group. Set I: contains the runs of a
-- group, and U those of all groups, by creation time. Hash H contains for each group the times at
-- which its first and its last run were added, the number of additions, and the data common to its
-- runs. Set E contains the groups by the time of the last addition, and set Z those without runs.

-- enter_failure_group records that a run enters a group. If the group is new, it also removes up to two
-- groups that have no run and have had no addition for kept milliseconds.
local function enter_failure_group(group, about, kept, now, at)
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

-- leave_failure_group removes a run from its group. The caller must change the metadata.
local function leave_failure_group(run, group)
  intact('ZREM', tag .. 'U', run)
  intact('ZREM', tag .. 'I:' .. group, run)
  local last = intact('EXISTS', tag .. 'I:' .. group) == 0 and intact('ZSCORE', tag .. 'E', group)
  if last then
    intact('ZADD', tag .. 'Z', last, group)
  end
end

-- join_failure_group adds a run to a group. The caller must change the metadata.
local function join_failure_group(run, group, created)
  intact('ZADD', tag .. 'U', created, run)
  intact('ZADD', tag .. 'I:' .. group, created, run)
  intact('ZREM', tag .. 'Z', group)
end

-- relabel sets the group of a run. If group is '', it removes the group. A run that already has the
-- group does not enter it a second time.
local function relabel(run, group, about, kept, now, at)
  local meta = tag .. 'm:' .. run
  local m = redis.call('HMGET', meta, 'g', 'a')
  if (m[1] or '') == group then
    return
  end
  if group ~= '' then
    enter_failure_group(group, about, kept, now, at)
  end
  if m[1] then
    leave_failure_group(run, m[1])
  end
  if group == '' then
    redis.call('HDEL', meta, 'g')
  else
    redis.call('HSET', meta, 'g', group)
    join_failure_group(run, group, m[2])
  end
end
