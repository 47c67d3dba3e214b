-- SetLimit configures a limit, and calls who may go now.
-- It mirrors SetLimit of package protocol.
--
-- KEYS  1 configurations of limits
-- ARGV  1 now  2 name  3 key, or ''  4 's' for what is set at run time, 'c' for what the
--       code declares  5 the configuration, '' to remove it
--
-- Returns 1.
--
-- Atomic, because whoever may go by the new configuration is called in the action that
-- stores it. The keys of the lines are built: they are found here.
--
-- Parts: tag intact clock header ready limit line

local name, key = ARGV[2], ARGV[3]
local all, id = name .. '\0', name .. '\0' .. key
local interval, burst = pace_of(config_of(id, all))
if ARGV[5] == '' then
  redis.call('HDEL', KEYS[1], ARGV[4] .. id)
else
  redis.call('HSET', KEYS[1], ARGV[4] .. id, ARGV[5])
end
configured_anew()

-- The rate is another one for all that have no configuration of their own: what has begun counts by that now.
local config = config_of(id, all)
local pace, at_once = pace_of(config)
if interval ~= pace or interval > 0 and burst ~= at_once then
  local own, stand = {}, {id, intact('HGET', tag .. 'L', id)}
  if key == '' then
    stand = intact('HGETALL', tag .. 'L') or {}
    for _, field in ipairs(intact('HKEYS', KEYS[1]) or {}) do
      own[field] = true
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
    if string.sub(part, 1, #id) == id then
      parts[#parts + 1] = string.sub(part, #id + 1)
    end
  end
  table.sort(parts)
end
for _, part in ipairs(parts) do
  local use = use_of({name, part, 1})
  for _, member in ipairs(intact('ZRANGE', use.kept, '0', '-1') or {}) do
    local line = line_of(string.sub(member, 16))
    if line and too_heavy(with_limits(line.uses)) then
      relist(line, line_open, 0)
      wake(line.route)
      call_next(line.uses) -- it keeps back nobody at its other limits any longer
    end
  end
  call_next({use})
end
return 1
