-- The limits of the partition, as package protocol has them. A run that uses limits, or has a
-- fair key, has field V of its metadata: whether it has its permits, keeps them to its end, was
-- called off, a digit each, its place among those who wait, and since when it waits; and fields U
-- to U3: what it uses, as JSON, [name, key, weight] each, in pieces that keep the metadata small.
-- Hash F has what is known of lines that use several limits: where a line counts; and of parts the
-- weights of those that wait for another limit first. See part line.
-- Hash L counts what is held of each part of a limit and waited for, and when the next weight
-- comes by its rate, in microseconds; hash K has the configurations.
-- A key of these that somebody has overwritten, or that is lost, must keep no run without
-- limits: it counts as missing, and what it leads to waits for a repair, which counts the
-- permits and makes the lines again from the runs.

local limit_now = micros(ARGV[1])

-- use_of returns a part of a limit that is used, as a list of what is used has it: name, key, weight, and the name of
-- the part, and the keys of the closed lines that count at it, and of those that do not. Field limit says how it stands, once that was read.
local function use_of(use)
  use.id = use[1] .. '\0' .. use[2]
  use.kept = tag .. 'F:' .. use.id
  use.away = use.kept .. '\0\0'
  return use
end

-- uses_by_text has what is used, by the text that says it: that is the same for a line and all of its runs.
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
  l.key, l.share, l.text, l.uses = key, tonumber(share), text, decode_uses(text)
  return l
end

-- uses_from returns the same by fields V, U, U1, U2, U3 and f, that stand there one after the other.
local function uses_from(f, i)
  return unpack_uses(f[i + 1] and f[i + 1] .. (f[i + 2] or '') .. (f[i + 3] or '') .. (f[i + 4] or '') or '[]', f[i] or '000', f[i + 5])
end

local function uses_of(run)
  return uses_from(redis.call('HMGET', tag .. 'm:' .. run, 'V', 'U', 'U1', 'U2', 'U3', 'f'), 1)
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

-- config_of returns how a part of a limit is configured. A script that changes that once it has read it calls configured_anew. A
-- script that asks for many parts reads all configurations at once, if they are few.
local configs, decoded, asked, all_configs = {}, {}, 0, nil
local function decode_config(packed)
  packed = packed or '[]'
  if not decoded[packed] then
    local read, c = pcall(cjson.decode, packed)
    decoded[packed] = read and type(c) == 'table' and c or {}
  end
  return decoded[packed]
end

-- merge_configs is MergeConfigs of package store, of texts that may be nil or false.
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

-- limits_read has how parts of limits stand, by their names. Nobody else changes it while the script is executed, and what it
-- changes itself is changed here first: so it is read once.
local limits_read = {}

-- pace_of returns the time from one weight to the next by a configuration, and how many may begin at once.
local function pace_of(c)
  return tonumber(c.i) or 0, tonumber(c.b) or 1
end

-- note_read notes how a part stands, as hash L has it, and how it is configured.
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

-- read_limits reads what several parts need at once.
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

-- with_limits returns what is used, with how the parts stand.
local function with_limits(uses)
  if uses[2] and not uses[1].limit then
    read_limits(uses)
  end
  for _, u in ipairs(uses) do
    u.limit = u.limit or limits_read[u.id] or note_read(u.id, intact('HGET', tag .. 'L', u.id), config_of(u.id, u[1] .. '\0'))
  end
  return uses
end

-- write_fields writes fields of a hash, with their values after them, and removes others.
local function write_fields(hash, fields, gone)
  for first = 1, #fields, 1000 do
    intact('HSET', hash, unpack(fields, first, math.min(first + 999, #fields)))
  end
  for first = 1, #gone, 1000 do
    intact('HDEL', hash, unpack(gone, first, math.min(first + 999, #gone)))
  end
end

-- write_limits writes how parts stand, by their names.
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
  -- One stays for its rate only, and nobody may come for it again: for each action in which one stays so, two
  -- others are looked at, and go if their time has passed.
  local others = intact('HRANDFIELD', tag .. 'L', '2', 'WITHVALUES') or {}
  for i = 1, #others, 2 do
    local tat = string.match(others[i + 1], '^0 0 (%d+)$')
    if tat and tonumber(tat) <= limit_now then
      intact('HDEL', tag .. 'L', others[i])
    end
  end
end

-- unsaved_limits has what save_limits has put off until write_limits; nil: it writes at once.
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

-- rate_wait returns when the rate lets a weight begin after so many others, in milliseconds;
-- 0: now.
local function rate_wait(l, weights)
  if l.interval == 0 then
    return 0
  end
  local at = math.max(l.tat, limit_now) + (weights - l.burst + 1) * l.interval
  return at <= limit_now and 0 or math.ceil(at / 1000)
end

local function room(l, weight)
  local till = rate_wait(l, 0)
  return till == 0 and not l.paused and (l.at_once == 0 or l.held + weight <= l.at_once), till
end

-- in_front returns the weights of the runs that may have their permits at a part before one that comes
-- now: those of that wait for another limit first take nothing here before they count again.
local function in_front(l)
  if l.waits > 0 and not l.away then
    l.away = math.max(tonumber(intact('HGET', tag .. 'F', l.id) or '') or 0, 0)
  end
  return math.max(l.waits - (l.away or 0), 0)
end

-- add_away counts weights that wait for another limit first than for a part, or no longer do.
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

-- too_heavy says which of the parts has never so much, and what it has; nil: none.
local function too_heavy(uses)
  for i, u in ipairs(uses) do
    if u.limit.at_once > 0 and u[3] > u.limit.at_once then
      return i, u.limit.at_once
    end
  end
  return nil
end

-- count changes what is held of limits and what waits for them. It goes with a change of
-- what a run has, in one action. Never below zero: after a loss others may be counted whose
-- begin was not.
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

-- carry lets what has begun by another pace count by that which a part has now, as carry of package protocol does.
local function carry(l, interval, burst)
  local ahead = l.tat - limit_now
  if ahead > burst * interval then
    l.tat = l.tat + (l.burst - 1) * l.interval - (burst - 1) * interval
  elseif ahead > 0 then
    l.tat = limit_now + math.min(math.ceil(ahead * l.interval / interval), l.burst * l.interval)
  end
end

-- refund gives back to the rates of limits what a grant has taken, as refund of package protocol does.
local function refund(uses)
  for _, u in ipairs(with_limits(uses)) do
    local l = u.limit
    if l.interval > 0 and l.tat - limit_now <= l.burst * l.interval then
      l.tat = math.max(l.tat - u[3] * l.interval, 0)
    end
  end
  save_limits(uses)
end

-- hold_back lets nothing begin by the rates of limits for so many microseconds.
local function hold_back(uses, d)
  for _, u in ipairs(with_limits(uses)) do
    if u.limit.interval > 0 then
      u.limit.tat = math.max(u.limit.tat, limit_now + d + (u.limit.burst - 1) * u.limit.interval)
      save_limits({u})
    end
  end
end
