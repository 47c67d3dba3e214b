-- The limits of the partition, as package protocol has them. A run that uses limits, or has a
-- fair key, has field V of its metadata: whether it has its permits, keeps them to its end, was
-- called off, a digit each, its place among those who wait, and since when it waits; and fields U
-- to U3: what it uses, as JSON, [name, key, weight] each, in pieces that keep the metadata small.
-- Hash L counts what is held of each part of a limit and waited for, and when the next weight
-- comes by its rate, in microseconds; hash K has the configurations.
-- A key of these that somebody has overwritten, or that is lost, must keep no run without
-- limits: it counts as missing, and what it leads to waits for a repair, which counts the
-- permits and makes the lines again from the runs.

local limit_now = micros(ARGV[1])
-- What was read of how limits stand. Nobody else changes it while the script is executed, and save_limits notes what it writes: so
-- it is read once.
local limits_read = {}

-- unpack_has returns what a run has of its uses, as field V says.
local function unpack_has(v)
  return {
    permits = string.sub(v, 1, 1) == '1', whole = string.sub(v, 2, 2) == '1', off = string.sub(v, 3, 3) == '1',
    place = string.sub(v, 4, 17), since = tonumber(string.sub(v, 18)) or 0,
  }
end

-- unpack_uses returns what a run uses, and what it has of that.
local function unpack_uses(text, v, fair)
  local l = unpack_has(v)
  local share, key = string.match(fair or '', '^(%d+) (.*)$')
  l.key, l.share, l.text, l.uses = key, tonumber(share), text, cjson.decode(text)
  return l
end

local function uses_of(run)
  local f = redis.call('HMGET', tag .. 'm:' .. run, 'V', 'U', 'U1', 'U2', 'U3', 'f')
  return unpack_uses(f[2] and f[2] .. (f[3] or '') .. (f[4] or '') .. (f[5] or '') or '[]', f[1] or '000', f[6])
end

-- uses_in returns the same of a run that ARGV describes, as add_run wants it.
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

-- pack_has returns field V.
local function pack_has(l)
  local since = l.place ~= '' and l.since > 0 and string.format('%.0f', l.since) or ''
  return (l.permits and '1' or '0') .. (l.whole and '1' or '0') .. (l.off and '1' or '0') .. l.place .. since
end

local function save_uses(run, l)
  redis.call('HSET', tag .. 'm:' .. run, 'V', pack_has(l))
end

-- queues reports whether a run waits for a worker only.
local function queues(l)
  return l.permits or l.off or #l.uses == 0
end

-- forgo lets a run that is not ready, and has no permits, go on without them once it is.
local function forgo(run)
  local l = uses_of(run)
  if not queues(l) then
    l.off = true
    save_uses(run, l)
  end
end

-- config_of returns how a part of a limit is configured. No script changes that once it has read it. A script that asks
-- for many parts reads all configurations at once, if they are few.
local configs, decoded, asked, all_configs = {}, {}, 0, nil
local function decode_config(packed)
  packed = packed or '[]'
  if not decoded[packed] then
    local read, c = pcall(cjson.decode, packed)
    decoded[packed] = read and type(c) == 'table' and c or {}
  end
  return decoded[packed]
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
  local packed
  if all_configs then
    packed = all_configs['s' .. id] or all_configs['s' .. all] or all_configs['c' .. all]
  else
    packed = intact('HMGET', tag .. 'K', 's' .. id, 's' .. all, 'c' .. all) or {}
    packed = packed[1] or packed[2] or packed[3]
  end
  configs[id] = decode_config(packed)
  return configs[id]
end

-- note_read notes how a part stands, as hash L has it, and returns that.
local function note_read(id, stands)
  local held, waits, tat = string.match(stands or '', '^(%d+) (%d+) (%d+)$')
  limits_read[id] = {held = tonumber(held or 0), waits = tonumber(waits or 0), tat = tonumber(tat or 0)}
  return limits_read[id]
end

-- limit_of returns how a part of a limit stands.
local function limit_of(use)
  local id = use[1] .. '\0' .. use[2]
  local c, read = config_of(id, use[1] .. '\0'), limits_read[id] or note_read(id, intact('HGET', tag .. 'L', id))
  return {
    id = id, weight = use[3], held = read.held, waits = read.waits, tat = read.tat, at_once = tonumber(c.AtOnce) or 0,
    interval = tonumber(c.i) or 0, burst = tonumber(c.b) or 1, refuse = c.Refuse == true, waiting = tonumber(c.Waiting) or 0, paused = c.Paused == true,
  }
end

-- read_limits reads what several parts need at once.
local function read_limits(uses)
  local ids, fields = {}, {}
  for i, u in ipairs(uses) do
    local id, all = u[1] .. '\0' .. u[2], u[1] .. '\0'
    if limits_read[id] or configs[id] then
      return
    end
    ids[i], fields[3 * i - 2], fields[3 * i - 1], fields[3 * i] = id, 's' .. id, 's' .. all, 'c' .. all
  end
  local stand, packed = intact('HMGET', tag .. 'L', unpack(ids)) or {}, intact('HMGET', tag .. 'K', unpack(fields)) or {}
  for i, id in ipairs(ids) do
    note_read(id, stand[i])
    configs[id] = decode_config(packed[3 * i - 2] or packed[3 * i - 1] or packed[3 * i])
  end
end

-- limits_of returns how the parts stand that a run uses.
local function limits_of(uses)
  local all = {}
  if uses[2] then
    read_limits(uses)
  end
  for i, u in ipairs(uses) do
    all[i] = limit_of(u)
  end
  return all
end

-- save_limits writes how parts stand.
local function save_limits(limits)
  local fields, rests = {}, false
  for _, l in ipairs(limits) do
    local idle = l.held == 0 and l.waits == 0
    if idle and l.tat <= limit_now then
      limits_read[l.id] = {held = 0, waits = 0, tat = 0}
      intact('HDEL', tag .. 'L', l.id)
    else
      limits_read[l.id], rests = {held = l.held, waits = l.waits, tat = l.tat}, rests or idle
      fields[#fields + 1] = l.id
      fields[#fields + 1] = string.format('%.0f %.0f %.0f', l.held, l.waits, l.tat)
    end
  end
  if fields[1] then
    intact('HSET', tag .. 'L', unpack(fields))
  end
  if not rests then
    return
  end
  -- One stays for its rate only, and nobody may come for it again: for each action in which one stays so, two
  -- others are looked at, and go if their time has passed.
  local others = intact('HRANDFIELD', tag .. 'L', '2', 'WITHVALUES') or {}
  for i = 1, #others, 2 do
    local tat = string.match(others[i + 1], '^0 0 (%d+)$')
    if tat and tonumber(tat) <= limit_now then
      limits_read[others[i]] = nil
      intact('HDEL', tag .. 'L', others[i])
    end
  end
end

-- rate_wait returns when the rate lets a weight begin after so many others, in milliseconds;
-- 0: now.
local function rate_wait(l, weights)
  if l.interval == 0 then
    return 0
  end
  local at = l.tat + (weights - l.burst + 1) * l.interval
  return at <= limit_now and 0 or math.ceil(at / 1000)
end

local function room(l, weight)
  local till = rate_wait(l, 0)
  return till == 0 and not l.paused and (l.at_once == 0 or l.held + weight <= l.at_once), till
end

-- too_heavy says which of the parts has never so much, and what it has; nil: none.
local function too_heavy(limits)
  for i, l in ipairs(limits) do
    if l.at_once > 0 and l.weight > l.at_once then
      return i, l.at_once
    end
  end
  return nil
end

-- count changes what is held of limits and what waits for them. It goes with a change of
-- what a run has, in one action. Never below zero: after a loss others may be counted whose
-- begin was not.
local function count(limits, held, waits)
  for _, l in ipairs(limits) do
    l.held, l.waits = math.max(l.held + held * l.weight, 0), math.max(l.waits + waits * l.weight, 0)
    if held > 0 and l.interval > 0 then
      l.tat = math.max(l.tat, limit_now) + l.weight * l.interval
    end
  end
  save_limits(limits)
end

-- hold_back lets nothing begin by the rates of limits for so many microseconds.
local function hold_back(limits, d)
  for _, l in ipairs(limits) do
    if l.interval > 0 then
      l.tat = math.max(l.tat, limit_now + d + (l.burst - 1) * l.interval)
      save_limits({l})
    end
  end
end
