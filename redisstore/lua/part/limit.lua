-- The limits of the partition, as package protocol defines them. A run that uses limits, or has a
-- fairness key, has field V in its metadata: three digits for whether it has its permits, keeps
-- them to its end, and has had its limits waived; its order number among the waiting runs; and
-- since when it waits. Fields U to U3 contain its uses as JSON, [name, key, weight] each, in pieces
-- that keep the metadata small.
-- Hash F contains, for a limiter queue with several limits, the limits at which it counts; and for
-- a part of a limit the weights of the runs that wait for another limit first. See part
-- limiter_queue.
-- Hash L contains for each part of a limit the held and the waiting weights, and the time of the
-- next weight by its rate, in microseconds; hash K contains the configurations.
-- An overwritten or lost key of these must not delay runs without limits: it is treated as missing,
-- and the runs that depend on it wait for a repair, which recounts the permits and rebuilds the
-- queues from the runs.

local limit_now = micros(ARGV[1])

-- use_of completes a use, an entry [name, key, weight] of a list of uses, with the ID of its part
-- of a limit, the key of the closed and admitted queues that count at the part, and the key of
-- those that do not. Field limit contains the state of the part once it was read.
local function use_of(use)
  use.id = use[1] .. '\0' .. use[2]
  use.kept = tag .. 'F:' .. use.id
  use.away = use.kept .. '\0\0'
  return use
end

-- uses_by_text caches decoded uses by their text, which is the same for a limiter queue and all of
-- its runs.
local uses_by_text = {}
local function decode_uses(text)
  local uses = uses_by_text[text]
  if not uses then
    uses = cjson.decode(text)
    for _, u in ipairs(uses) do
      use_of(u)
    end
    uses_by_text[text] = uses
  end
  return uses
end

-- unpack_has decodes field V, which contains the state of a run with respect to its uses.
local function unpack_has(v)
  return {
    permits = string.sub(v, 1, 1) == '1', whole = string.sub(v, 2, 2) == '1', off = string.sub(v, 3, 3) == '1',
    place = string.sub(v, 4, 17), since = tonumber(string.sub(v, 18)) or 0,
  }
end

-- unpack_uses returns the uses of a run and its state with respect to them.
local function unpack_uses(text, v, fair)
  local l = unpack_has(v)
  local share, key = string.match(fair or '', '^(%d+) (.*)$')
  l.key, l.share, l.text, l.uses = key, tonumber(share), text, decode_uses(text)
  return l
end

-- uses_from returns the uses of a run and its state from fields V, U, U1, U2, U3 and f, which are
-- consecutive in list f from index i.
local function uses_from(f, i)
  return unpack_uses(f[i + 1] and f[i + 1] .. (f[i + 2] or '') .. (f[i + 3] or '') .. (f[i + 4] or '') or '[]', f[i] or '000', f[i + 5])
end

local function uses_of(run)
  return uses_from(redis.call('HMGET', tag .. 'm:' .. run, 'V', 'U', 'U1', 'U2', 'U3', 'f'), 1)
end

-- uses_in returns the uses and the state of a run that ARGV describes in the format of add_run.
local function uses_in(first)
  local text, i, fair = '', first + 9, nil
  if ARGV[i] == 'f' then
    fair, i = ARGV[i + 1], i + 2
  end
  while string.find(ARGV[i] or '', '^U') do
    text, i = text .. ARGV[i + 1], i + 2
  end
  return unpack_uses(text ~= '' and text or '[]', ARGV[first + 8], fair)
end

-- pack_has encodes field V.
local function pack_has(l)
  local since = l.place ~= '' and l.since > 0 and string.format('%.0f', l.since) or ''
  return (l.permits and '1' or '0') .. (l.whole and '1' or '0') .. (l.off and '1' or '0') .. l.place .. since
end

local function save_uses(run, l)
  redis.call('HSET', tag .. 'm:' .. run, 'V', pack_has(l))
end

-- queues reports whether a run waits only for a worker.
local function queues(l)
  return l.permits or l.off or #l.uses == 0
end

-- forgo waives the limits of a run that is not ready and has no permits. The run continues without
-- permits when it becomes ready.
local function forgo(run)
  local l = uses_of(run)
  if not queues(l) then
    l.off = true
    save_uses(run, l)
  end
end

-- config_of returns the configuration of a part of a limit. A script that changes a configuration
-- after reading it must call configured_anew. A script that requests many parts reads all
-- configurations at once if there are few.
local configs, decoded, asked, all_configs = {}, {}, 0, nil
local function decode_config(packed)
  packed = packed or '[]'
  if not decoded[packed] then
    local read, c = pcall(cjson.decode, packed)
    decoded[packed] = read and type(c) == 'table' and c or {}
  end
  return decoded[packed]
end

-- merge_configs is MergeConfigs of package store on encoded configurations, which may be nil or
-- false.
local function merge_configs(own, whole, code)
  own, whole = own and decode_config(own), whole and decode_config(whole)
  local config = own and own.Follows ~= true and own or whole and whole.Follows ~= true and whole or decode_config(code)
  local paused = own and own.Paused == true or whole and whole.Paused == true or false
  if (config.Paused == true) == paused then
    return config
  end
  local merged = {}
  for field, value in pairs(config) do
    merged[field] = value
  end
  merged.Paused = paused
  return merged
end

local function config_of(id, all)
  if configs[id] then
    return configs[id]
  end
  asked = asked + 1
  if asked == 4 and (intact('HLEN', tag .. 'K') or 0) <= 32 then
    local fields = intact('HGETALL', tag .. 'K') or {}
    all_configs = {}
    for i = 1, #fields, 2 do
      all_configs[fields[i]] = fields[i + 1]
    end
  end
  local own, whole, code
  if all_configs then
    own, whole, code = all_configs['s' .. id], all_configs['s' .. all], all_configs['c' .. all]
  else
    own, whole, code = unpack(intact('HMGET', tag .. 'K', 's' .. id, 's' .. all, 'c' .. all) or {}, 1, 3)
  end
  configs[id] = merge_configs(own, whole, code)
  return configs[id]
end

local function configured_anew()
  configs, all_configs = {}, nil
end

-- limits_read contains the states of parts of limits by ID. During the script, only the script can
-- change a state, and it changes this table first. Therefore each state is read only once.
local limits_read = {}

-- pace_of returns the interval between two units of weight in a configuration, and the weight that
-- may begin at the same moment.
local function pace_of(c)
  return tonumber(c.i) or 0, tonumber(c.b) or 1
end

-- note_read caches the state of a part, as encoded in hash L, together with its configuration.
local function note_read(id, stands, c)
  local held, waits, tat = string.match(stands or '', '^(%d+) (%d+) (%d+)$')
  local interval, burst = pace_of(c)
  local l = {
    id = id, held = tonumber(held or 0), waits = tonumber(waits or 0), tat = tonumber(tat or 0), at_once = tonumber(c.AtOnce) or 0,
    interval = interval, burst = burst, refuse = c.Refuse == true, waiting = tonumber(c.Waiting) or 0, paused = c.Paused == true,
  }
  limits_read[id] = l
  return l
end

-- read_limits reads the state and the configurations of several parts at once.
local function read_limits(uses)
  local ids, fields = {}, {}
  for i, u in ipairs(uses) do
    local all = u[1] .. '\0'
    if limits_read[u.id] or configs[u.id] then
      return
    end
    ids[i], fields[3 * i - 2], fields[3 * i - 1], fields[3 * i] = u.id, 's' .. u.id, 's' .. all, 'c' .. all
  end
  local stand, packed = intact('HMGET', tag .. 'L', unpack(ids)) or {}, intact('HMGET', tag .. 'K', unpack(fields)) or {}
  for i, id in ipairs(ids) do
    configs[id] = merge_configs(packed[3 * i - 2], packed[3 * i - 1], packed[3 * i])
    note_read(id, stand[i], configs[id])
  end
end

-- with_limits returns the uses after it has set the states of their parts.
local function with_limits(uses)
  if uses[2] and not uses[1].limit then
    read_limits(uses)
  end
  for _, u in ipairs(uses) do
    u.limit = u.limit or limits_read[u.id] or note_read(u.id, intact('HGET', tag .. 'L', u.id), config_of(u.id, u[1] .. '\0'))
  end
  return uses
end

-- write_fields writes the given pairs of field and value into a hash, and removes the fields in
-- gone.
local function write_fields(hash, fields, gone)
  for first = 1, #fields, 1000 do
    intact('HSET', hash, unpack(fields, first, math.min(first + 999, #fields)))
  end
  for first = 1, #gone, 1000 do
    intact('HDEL', hash, unpack(gone, first, math.min(first + 999, #gone)))
  end
end

-- write_limits writes the states of parts by ID.
local function write_limits(limits)
  local fields, gone, rests = {}, {}, false
  for id, l in pairs(limits) do
    local idle = l.held == 0 and l.waits == 0
    if idle and l.tat <= limit_now then
      l.tat = 0
      gone[#gone + 1] = id
    else
      rests = rests or idle
      fields[#fields + 1] = id
      fields[#fields + 1] = string.format('%.0f %.0f %.0f', l.held, l.waits, l.tat)
    end
  end
  write_fields(tag .. 'L', fields, gone)
  if not rests then
    return
  end
  -- A part that is kept only for its rate may never be used again. Therefore each action that
  -- leaves such a part examines two other parts, and removes those whose rate permits the next
  -- weight.
  local others = intact('HRANDFIELD', tag .. 'L', '2', 'WITHVALUES') or {}
  for i = 1, #others, 2 do
    local tat = string.match(others[i + 1], '^0 0 (%d+)$')
    if tat and tonumber(tat) <= limit_now then
      intact('HDEL', tag .. 'L', others[i])
    end
  end
end

-- unsaved_limits contains the states that save_limits does not write until write_limits is called.
-- If it is nil, save_limits writes at once.
local unsaved_limits
local function save_limits(uses)
  local limits = unsaved_limits or {}
  for _, u in ipairs(uses) do
    limits[u.id] = u.limit
  end
  if not unsaved_limits then
    write_limits(limits)
  end
end

-- rate_wait returns the time at which the rate lets a weight begin after the given number of other
-- weights, in milliseconds; 0 if it may begin immediately.
local function rate_wait(l, weights)
  if l.interval == 0 then
    return 0
  end
  local at = math.max(l.tat, limit_now) + (weights - l.burst + 1) * l.interval
  return at <= limit_now and 0 or math.ceil(at / 1000)
end

local function has_capacity(l, weight)
  local till = rate_wait(l, 0)
  return till == 0 and not l.paused and (l.at_once == 0 or l.held + weight <= l.at_once), till
end

-- in_front returns the weight of the runs that may get permits of a part before a run that arrives
-- now. It does not include runs that wait for another limit first, because they take no capacity of
-- this part before that.
local function in_front(l)
  if l.waits > 0 and not l.away then
    l.away = math.max(tonumber(intact('HGET', tag .. 'F', l.id) or '') or 0, 0)
  end
  return math.max(l.waits - (l.away or 0), 0)
end

-- add_away adds to the weight that waits for another limit before this part. The weight may be
-- negative.
local function add_away(id, weights)
  if weights == 0 then
    return
  end
  local n = (tonumber(intact('HGET', tag .. 'F', id) or '') or 0) + weights
  if n > 0 then
    intact('HSET', tag .. 'F', id, string.format('%.0f', n))
  else
    intact('HDEL', tag .. 'F', id)
  end
  if limits_read[id] then
    limits_read[id].away = nil
  end
end

-- too_heavy returns the index of a use whose weight exceeds the capacity of its limit, and the
-- capacity. It returns nil if there is none.
local function too_heavy(uses)
  for i, u in ipairs(uses) do
    if u.limit.at_once > 0 and u[3] > u.limit.at_once then
      return i, u.limit.at_once
    end
  end
  return nil
end

-- count changes the held and the waiting weights of limits. It is called in the same action that
-- changes the state of the run. The weights never become negative, because after a loss of data a
-- run may end whose begin was not counted.
local function count(uses, held, waits)
  for _, u in ipairs(with_limits(uses)) do
    local l = u.limit
    l.held, l.waits = math.max(l.held + held * u[3], 0), math.max(l.waits + waits * u[3], 0)
    if held > 0 and l.interval > 0 then
      l.tat = math.max(l.tat, limit_now) + u[3] * l.interval
    end
  end
  save_limits(uses)
end

-- carry adjusts the time of the next weight of a part after a change of the rate, as carry of
-- package protocol does.
local function carry(l, interval, burst)
  local ahead = l.tat - limit_now
  if ahead > burst * interval then
    l.tat = l.tat + (l.burst - 1) * l.interval - (burst - 1) * interval
  elseif ahead > 0 then
    l.tat = limit_now + math.min(math.ceil(ahead * l.interval / interval), l.burst * l.interval)
  end
end

-- refund returns the weight of a grant to the rates of its limits, as refund of package protocol
-- does.
local function refund(uses)
  for _, u in ipairs(with_limits(uses)) do
    local l = u.limit
    if l.interval > 0 and l.tat - limit_now <= l.burst * l.interval then
      l.tat = math.max(l.tat - u[3] * l.interval, 0)
    end
  end
  save_limits(uses)
end

-- hold_back closes the rates of limits for d microseconds.
local function hold_back(uses, d)
  for _, u in ipairs(with_limits(uses)) do
    if u.limit.interval > 0 then
      u.limit.tat = math.max(u.limit.tat, limit_now + d + (u.limit.burst - 1) * u.limit.interval)
      save_limits({u})
    end
  end
end
