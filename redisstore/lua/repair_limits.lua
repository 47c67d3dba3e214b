-- RepairLimits recomputes the held and waiting weights of limits, the limiter queues of waiting
-- runs, and the state of fairness keys, all from the metadata of the runs.
--
-- KEYS  1 routes  2 counts of limits  3 limiter queues  4 fairness states  5 and on: sets of runs
--       in limiter queues, of queues at parts of limits, and of the passes of fairness keys, as
--       they were seen
-- ARGV  1 now  2 number of sets in KEYS  3 number of queue entries that were seen elsewhere
--       4 and on: for each of these its key and the entry; then runs that use limits, as they were
--       seen
--
-- Returns {'ok'}, or {'moved'} if everything was correct.
--
-- Atomic, because a permit that is taken or returned meanwhile must be counted exactly once.
-- Therefore the script examines all open runs and not only those that were seen: in a partition of
-- a million runs that takes the server two seconds. The keys of runs and queues are built because
-- these are found here. All queues are open afterwards: claims close those that must wait.
--
-- Parts: tag intact clock header ready sets limit limiter_queue join

local seen, entries = tonumber(ARGV[2]), tonumber(ARGV[3])

-- stands returns a digest of all data of limits and limiter queues. The digest does not depend on
-- whether a queue is open.
local function stands()
  local all = {}
  for i = 2, 3 do
    local fields = redis.call('HGETALL', KEYS[i])
    for j = 1, #fields, 2 do
      local limiter = i == 3 and redis.call('ZRANGE', tag .. 'P:' .. fields[j], '0', '-1', 'WITHSCORES') or {}
      local packed = i == 3 and string.gsub(fields[j + 1], '^%d %d+ ', '') or fields[j + 1]
      all[#all + 1] = fields[j] .. '=' .. packed .. table.concat(limiter, ' ')
    end
  end
  local fair_keys = redis.call('HGETALL', KEYS[4])
  for j = 1, #fair_keys, 2 do -- the passes of a flow without waiting runs are not recomputed
    all[#all + 1] = fair_keys[j] .. '=' .. string.match(fair_keys[j + 1], '^%d*')
  end
  table.sort(all)
  return redis.sha1hex(table.concat(all, '\n'))
end

local was, changed = stands(), 0
local fields = redis.call('HGETALL', KEYS[3])
for i = 1, #fields, 2 do
  local limiter = limiter_of(fields[i])
  if limiter then
    unlist(limiter)
  end
  redis.call('DEL', tag .. 'P:' .. fields[i])
end
redis.call('DEL', KEYS[3])
changed = changed + redis.call('DEL', tag .. 'F') -- no queue is closed after the repair
fields = redis.call('HKEYS', KEYS[4])
for _, fair_key in ipairs(fields) do
  redis.call('DEL', tag .. 'X:' .. fair_key)
end
redis.call('DEL', KEYS[4])
for i = 5, 4 + seen do
  changed = changed + redis.call('DEL', KEYS[i])
end
for i = 4, 3 + 2 * entries, 2 do
  changed = changed + redis.call('ZREM', ARGV[i], ARGV[i + 1])
end
fields = redis.call('HGETALL', KEYS[2])
local counted_anew = {}
for i = 1, #fields, 2 do
  counted_anew[fields[i]] = {held = 0, waits = 0, tat = tonumber(string.match(fields[i + 1], '^%d+ %d+ (%d+)$') or 0)}
end
write_limits(counted_anew)

reread()
local fair_keys = {}

-- counted counts a run for the flow of its route and priority.
local function counted(l, route, priority)
  local id = route .. ':' .. (priority or '0')
  local f, place = fair_keys[id] or {waits = 0, pass = math.huge, passes = {}}, tonumber(l.place, 16)
  local pass = place + math.floor((5040 + math.floor(l.share / 2)) / l.share)
  f.waits, f.pass, f.passes[l.key] = f.waits + 1, math.min(f.pass, place), math.max(f.passes[l.key] or 0, pass)
  fair_keys[id] = f
end

local runs, done = {}, {}
for _, route in ipairs(intact('HKEYS', KEYS[1]) or {}) do
  for _, parent in ipairs({false, true}) do
    for _, run in ipairs(intact('ZRANGE', open_runs(route, parent), '0', '-1') or {}) do
      runs[#runs + 1] = run
    end
  end
end
for i = 4 + 2 * entries, #ARGV do
  runs[#runs + 1] = ARGV[i]
end
put_off()
for _, run in ipairs(runs) do
  local m = not done[run] and intact('HMGET', tag .. 'm:' .. run, 'H', 'c', 'r', 'V', 'p') or {}
  done[run] = true
  if queue_state_of(m[1]) and queue_state_of(m[1]) ~= '6' and flagged(m[1], is_limited) then
    local l = uses_of(run)
    if l.key and queue_state_of(m[1]) == '1' and not l.off then
      if queues(l) and l.place ~= m[5] then
        l.place = m[5]
        save_uses(run, l)
      elseif l.place == '' then
        l.place = next_order()
        redis.call('HSET', tag .. 'm:' .. run, 'p', l.place, 'V', pack_has(l))
      end
      counted(l, m[2], m[3])
    end
    if l.permits then
      for _, u in ipairs(with_limits(l.uses)) do
        u.limit.held = u.limit.held + u[3]
      end
      save_limits(l.uses)
    elseif queue_state_of(m[1]) == '1' and not queues(l) then
      if l.place == '' then
        l.place = next_order()
        redis.call('HSET', tag .. 'm:' .. run, 'p', l.place, 'V', pack_has(l))
      end
      queue_up(run, m[2], m[3], l)
    end
  end
end
write_put_off()
for id, f in pairs(fair_keys) do
  redis.call('HSET', KEYS[4], id, string.format('%.0f %.0f 0', f.waits, f.pass))
  for key, pass in pairs(f.passes) do
    redis.call('ZADD', tag .. 'X:' .. id, string.format('%.0f', pass), key)
  end
end
return {(changed > 0 or stands() ~= was) and 'ok' or 'moved'}
