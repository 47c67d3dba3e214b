-- reachable reports whether a run is in the set that serves its queue state. If the set has lost
-- the run, reachable restores it from the metadata, and records the reason in the audit trail.
--
-- This never executes a run twice: a run that is ready, waits for its time or is blocked is
-- restored as its metadata describes it, which every claim compares, and an owned run gets a new
-- fence, so that all writes of its owner are refused, even if the owner is alive.
local function reachable(run, by, now)
  local m = intact('HMGET', tag .. 'm:' .. run, 'H', 'p', 'c', 'r', 'F') or {}
  local header, value, route = m[1], m[2], m[3]
  local state = queue_state_of(header)
  if not state or not value or not route then
    return true -- the metadata is damaged: fsck rewrites it from the log
  end
  local function restored(owner, reason)
    trail(run, reason or string.byte(header, 50) == 1 and 'stuck_created' or 'stuck_running', by, owner, now, header)
    return false
  end
  local set, member = 'r:' .. route, value .. run
  if state == '1' and flagged(header, is_limited) then
    -- Part: limit
    if not queues(uses_of(run)) then
      return true -- the run waits for limits: fsck rebuilds the queues
    end
  elseif state == '2' then
    local owner = intact('HGET', tag .. 'z:' .. value, 'i')
    if owner == false or intact('SISMEMBER', tag .. 'o:' .. value, run) == 0 then
      restored(owner or '', 'no_claim')
      leave_owner(run, value)
      make_ready(run, refenced(header, '1', nobody), route, m[4])
      return false
    end
    return true
  elseif state == '3' then
    set, member = 't', run
  elseif state == '4' then
    set, member = 'b:' .. route, (m[5] or '') .. ' ' .. run
  end
  if state > '4' or state == '3' and value == '0' or intact('ZSCORE', tag .. set, member) ~= false then
    return true
  end
  place(run, state, route, m[4], value, m[5] or '')
  return restored('')
end

-- restore examines at most most open runs and restores those that are not reachable, unless another
-- session has done so just before. It returns the restored runs. It proceeds cyclically: it stores
-- the set and the run that it has reached, together with the time of the examination.
local function restore(names, by, now, ttl, most)
  local a = redis.call('HMGET', tag .. 'A', 'm', 'q', 'Q')
  local since = a[1] and now - a[1] or -1
  if since >= 0 and since < math.min(5000, math.floor(ttl / 4)) then
    return {}
  end
  local sets = {}
  for _, route in ipairs(redis.call('HKEYS', names)) do
    sets[#sets + 1], sets[#sets + 2] = route .. 'c', route .. 'r'
  end
  table.sort(sets)
  local at, rank, last, runs = 1, 0, '', {}
  while at < #sets and sets[at] < (a[2] or '') do
    at = at + 1
  end
  local score, run = string.match(sets[at] == a[2] and a[3] or '', '^(%S+) (.+)$')
  if run then
    local there = intact('ZRANK', tag .. 'p:' .. sets[at], run)
    rank = there and there + 1 or intact('ZCOUNT', tag .. 'p:' .. sets[at], '-inf', '(' .. score) or 0
  end
  for _ = 1, #sets do
    local found = intact('ZRANGE', tag .. 'p:' .. sets[at], rank, rank + most - 1, 'WITHSCORES') or {}
    for i = 1, #found, 2 do
      if not reachable(found[i], by, now) then
        runs[#runs + 1] = found[i]
      end
    end
    most = most - #found / 2
    if most <= 0 then
      last = found[#found] .. ' ' .. found[#found - 1]
      break
    end
    at, rank = at % #sets + 1, 0
  end
  redis.call('HSET', tag .. 'A', 'm', string.format('%.0f', now), 'q', sets[at] or '', 'Q', last)
  return runs
end
