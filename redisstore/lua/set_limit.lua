-- SetLimit configures a limit, and updates the limiter queues that use it.
-- It mirrors SetLimit of package protocol.
--
-- KEYS  1 configurations of limits
-- ARGV  1 now  2 name  3 key, or ''  4 's' for a configuration set at run time, 'c' for one
--       declared by the code  5 the configuration, '' to remove it  6 number of queues and parts to
--       visit  7 'k' to keep the pause as it is, 'p' or 'r' to only pause or resume, or ''  8 '1'
--       to continue after the configuration was stored  9 the key of a part  10, 11 the priority
--       and the order number of the last queue visited there, '' for none
--
-- Returns {0}, or {1, key, priority, order number} if there are more queues.
--
-- Atomic, because claims use both the configuration and the queues. A change that affects many
-- queues takes several scripts: until the last one, some queues are in the state for the previous
-- configuration and some in that for the new one. They may then hold back more or fewer runs than
-- they should, but no run takes capacity that is not free. The keys of the queues are built because
-- the queues are found here.
--
-- Parts: tag intact clock header ready limit limiter_queue

local name, key = ARGV[2], ARGV[3]
local all, id = name .. '\0', name .. '\0' .. key

-- given implements Given of package store on encoded configurations. It does not encode numbers
-- anew, because they would lose digits.
local function given(packed, pause, id)
  if pause == '' then
    return packed
  end
  local was, follows = intact('HGET', KEYS[1], 's' .. id) or nil, false
  local config = was and decode_config(was) or {Follows = true}
  local paused = config.Paused == true
  if pause ~= 'k' then
    paused, follows = pause == 'p', config.Follows == true
    packed = was or cjson.encode({Paused = false})
  elseif packed == '' then
    packed, follows = cjson.encode({Paused = false}), true
  end
  if follows and not paused then
    return ''
  end
  packed = string.gsub(packed, ',?"Follows":%a+', '')
  packed = string.gsub(packed, '"Paused":%a+', '"Paused":' .. tostring(paused))
  if follows then
    packed = string.gsub(packed, '}$', ',"Follows":true}')
  end
  return packed
end

local interval, burst = pace_of(config_of(id, all))
if ARGV[8] ~= '1' then
  local packed = given(ARGV[5], ARGV[7], id)
  if packed == '' then
    redis.call('HDEL', KEYS[1], ARGV[4] .. id)
  else
    redis.call('HSET', KEYS[1], ARGV[4] .. id, packed)
  end
  configured_anew()
end

-- If the rate has changed, runs that have begun count by the new rate. This applies to all parts
-- without their own configuration.
local config = config_of(id, all)
local pace, at_once = pace_of(config)
if interval ~= pace or interval > 0 and burst ~= at_once then
  local own, stand = {}, {id, intact('HGET', tag .. 'L', id)}
  if key == '' then
    stand = intact('HGETALL', tag .. 'L') or {}
    local fields = intact('HGETALL', KEYS[1]) or {}
    for i = 1, #fields, 2 do
      own[fields[i]] = decode_config(fields[i + 1]).Follows ~= true
    end
  end
  local changed = {}
  for i = 1, #stand, 2 do
    local part = stand[i]
    if stand[i + 1] and string.sub(part, 1, #id) == id and (part == id or not own['s' .. part]) then
      local l = note_read(part, stand[i + 1], config)
      if l.tat > limit_now then
        carry(l, interval, burst)
        changed[part] = l
      end
    end
  end
  write_limits(changed)
end

local parts = {key}
if key == '' then
  parts = {}
  for _, part in ipairs(intact('HKEYS', tag .. 'L') or {}) do
    if string.sub(part, 1, #id) == id and string.sub(part, #id + 1) >= ARGV[9] then
      parts[#parts + 1] = string.sub(part, #id + 1)
    end
  end
  table.sort(parts)
end

-- rank_after returns the number of members of a set up to a position, including the position.
local function rank_after(set, score, place)
  local low, high = 0, intact('ZCARD', set) or 0
  while low < high do
    local mid = math.floor((low + high) / 2)
    local member = intact('ZRANGE', set, mid, mid, 'WITHSCORES') or {}
    if member[1] and before(score, place, tonumber(member[2]), string.sub(member[1], 1, 14)) then
      high = mid
    else
      low = mid + 1
    end
  end
  return low
end

-- limiters_of returns the closed and admitted queues of a part in the order of their positions, at
-- most the given number from each set. It begins after the given position, if there is one.
local function limiters_of(use, most, score, place)
  local members = {}
  for _, set in ipairs({use.kept, use.away}) do
    local from = place ~= '' and rank_after(set, score, place) or 0
    local some = intact('ZRANGE', set, from, from + most - 1, 'WITHSCORES') or {}
    for i = 1, #some, 2 do
      members[#members + 1] = {set = set, member = some[i], score = tonumber(some[i + 1])}
    end
  end
  table.sort(members, function(a, b) return before(a.score, a.member, b.score, b.member) end)
  return members
end

local left = tonumber(ARGV[6])
for _, part in ipairs(parts) do
  local use, score, place = use_of({name, part, 1}), '', ''
  if part == ARGV[9] then
    score, place = ARGV[10], ARGV[11]
  end
  for _, m in ipairs(limiters_of(use, left, tonumber(score), place)) do
    if left == 0 then
      return {1, part, score, place}
    end
    left, score, place = left - 1, string.format('%.0f', m.score), string.sub(m.member, 1, 14)
    local limiter = limiter_of(string.sub(m.member, 16))
    if not limiter or limiter.mode == limiter_open then
      intact('ZREM', m.set, m.member) -- the record of the queue is missing or damaged
    elseif too_heavy(with_limits(limiter.uses)) then
      relist(limiter, limiter_open, 0)
      wake(limiter.route)
      call_next(limiter.uses) -- the queue does not hold back other queues at its other limits after this
    else
      restand(limiter)
    end
  end
  call_next({use})
  if left < 2 then
    return {1, part, score, place}
  end
  left = left - 1
end
return {0}
