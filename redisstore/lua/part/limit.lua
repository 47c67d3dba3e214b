-- The limits of the partition, as package protocol has them. A run that uses limits, or has a
-- fair key, has field
-- V of its metadata: whether it has its permits, keeps them to its end, was called off, a
-- digit each, its place among those who wait, and since when it waits; and fields U to U3: what it uses, as JSON,
-- [name, key, weight] each, in pieces that keep the metadata small. Hash L counts what is held of each part of a limit and waited for, and when
-- the next weight comes by its rate, in microseconds; hash K has the configurations. A line is
-- the runs of one route that wait for the same: a set of them (P:), its record in hash Y, with
-- the turn of its first run. Claims find an open line as '~' and its id among the ready runs
-- of its route, and its time among the timers; what is shut or called is in the set F: of each
-- of its parts, by turns.
-- A key of these that somebody has overwritten, or that is lost, must keep no run without
-- limits: it counts as missing, and what it leads to waits for a repair, which counts the
-- permits and makes the lines again from the runs.

local limit_now = ARGV[1] ~= '0' and ARGV[1] * 1000
if not limit_now then
  local t = redis.call('TIME')
  limit_now = t[1] * 1000000 + t[2]
end
local turned = {} -- routes of lines that have changed
local line_open, line_shut, line_called = '0', '1', '2'

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

-- config_of returns how a part of a limit is configured. No script changes that once it has read it.
local configs = {}
local function config_of(id, all)
  if not configs[id] then
    local packed = intact('HMGET', tag .. 'K', 's' .. id, 's' .. all, 'c' .. all) or {}
    local read, c = pcall(cjson.decode, packed[1] or packed[2] or packed[3] or '[]')
    configs[id] = read and type(c) == 'table' and c or {}
  end
  return configs[id]
end

-- limit_of returns how a part of a limit stands.
local function limit_of(use)
  local id = use[1] .. '\0' .. use[2]
  local held, waits, tat = string.match(intact('HGET', tag .. 'L', id) or '', '^(%d+) (%d+) (%d+)$')
  local c = config_of(id, use[1] .. '\0')
  return {
    id = id, weight = use[3], held = tonumber(held or 0), waits = tonumber(waits or 0), tat = tonumber(tat or 0), at_once = tonumber(c.AtOnce) or 0,
    interval = tonumber(c.i) or 0, burst = tonumber(c.b) or 1, refuse = c.Refuse == true, waiting = tonumber(c.Waiting) or 0, paused = c.Paused == true,
  }
end

-- limits_of returns how the parts stand that a run uses.
local function limits_of(uses)
  local all = {}
  for i, u in ipairs(uses) do
    all[i] = limit_of(u)
  end
  return all
end

local function save_limit(l)
  local idle = l.held == 0 and l.waits == 0
  if idle and l.tat <= limit_now then
    intact('HDEL', tag .. 'L', l.id)
    return
  end
  intact('HSET', tag .. 'L', l.id, string.format('%.0f %.0f %.0f', l.held, l.waits, l.tat))
  if not idle then
    return
  end
  -- It stays for its rate only, and nobody may come for it again: for each that stays so, two
  -- others are looked at, and go if their time has passed.
  local others = intact('HRANDFIELD', tag .. 'L', 2, 'WITHVALUES') or {}
  for i = 1, #others, 2 do
    local tat = string.match(others[i + 1], '^0 0 (%d+)$')
    if tat and tonumber(tat) <= limit_now then
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

-- note_wait notes whether a run that comes into line waits for its limits, and not only for
-- a worker: those that wait already count as having begun.
local function note_wait(l, limits)
  l.since = 0
  for _, limit in ipairs(limits) do
    local full = limit.at_once > 0 and limit.held + limit.waits + limit.weight > limit.at_once
    if limit.paused or full or rate_wait(limit, limit.waits) > 0 then
      l.since = math.floor(limit_now / 1000)
    end
  end
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
    save_limit(l)
  end
end

-- hold_back lets nothing begin by the rates of limits for so many microseconds.
local function hold_back(limits, d)
  for _, l in ipairs(limits) do
    if l.interval > 0 then
      l.tat = math.max(l.tat, limit_now + d + (l.burst - 1) * l.interval)
      save_limit(l)
    end
  end
end

local function kept_lines(use)
  return tag .. 'F:' .. use[1] .. '\0' .. use[2]
end

-- nested reports whether a use is.
local function nested(use)
  return use[4] == 1
end

-- nested_lines is those of them whose uses are nested.
local function nested_lines(use)
  return kept_lines(use) .. '\0'
end

local function line_id(route, text)
  return redis.sha1hex(route .. text)
end

-- line_of returns a line; nil: nobody waits in it, or its record is not what was written: the
-- id is made from what the line is, so that a text which was not written is not decoded.
local function line_of(id)
  local mode, till, score, place, route, text = string.match(intact('HGET', tag .. 'Y', id) or '', '^([012]) (%d+) (%-?%d+) (%S+) (%S+) (.*)$')
  if not mode or line_id(route, text) ~= id then
    return nil
  end
  return {id = id, mode = mode, till = tonumber(till), score = tonumber(score), place = place, route = route, text = text, uses = cjson.decode(text)}
end

-- first_of returns the first run of a line, with its turn.
local function first_of(id)
  local first = intact('ZRANGE', tag .. 'P:' .. id, 0, 0, 'WITHSCORES') or {}
  return first[1] and string.sub(first[1], 15), tonumber(first[2] or 0), first[1] and string.sub(first[1], 1, 14)
end

-- before reports whether a turn comes before another one.
local function before(score, place, other, there)
  return score < other or score == other and place < there
end

-- unlist takes a line out of where it is looked for. It has no place then.
local function unlist(line)
  turned[line.route] = true
  if not line.place then
    return
  end
  if line.mode ~= line_shut then
    intact('ZREM', tag .. 'r:' .. line.route, line.place .. '~' .. line.id)
  end
  if line.till > 0 then
    intact('ZREM', tag .. 't', '~' .. line.id)
  end
  if line.mode ~= line_open then
    for _, u in ipairs(line.uses) do
      intact('ZREM', kept_lines(u), line.place .. line.mode .. line.id)
      if nested(u) then
        intact('ZREM', nested_lines(u), line.place .. line.mode .. line.id)
      end
    end
  end
  line.place = nil
end

-- relist puts it where its mode and its first run say, and forgets it if nobody waits in it.
local function relist(line, mode, till)
  unlist(line)
  local run, score, place = first_of(line.id)
  if not run then
    intact('HDEL', tag .. 'Y', line.id)
    return
  end
  line.mode, line.till, line.score, line.place = mode, till, score, place
  if mode ~= line_shut then
    intact('ZADD', tag .. 'r:' .. line.route, score, place .. '~' .. line.id)
  end
  if mode ~= line_open then
    for _, u in ipairs(line.uses) do
      intact('ZADD', kept_lines(u), score, place .. mode .. line.id)
      if nested(u) then
        intact('ZADD', nested_lines(u), score, place .. mode .. line.id)
      end
    end
  end
  if till > 0 then
    intact('ZADD', tag .. 't', till, '~' .. line.id)
  end
  intact('HSET', tag .. 'Y', line.id, string.format('%s %.0f %.0f %s %s ', mode, till, score, place, line.route) .. line.text)
end

-- save_turn is relist, and tells if somebody must look at it earlier than at all else.
local function save_turn(line, mode, till)
  unlist(line)
  local first = till > 0 and intact('ZRANGE', tag .. 't', 0, 0, 'WITHSCORES') or {}
  relist(line, mode, till)
  if till > 0 and (not first[2] or till < tonumber(first[2])) then
    wake(line.route)
    redis.call('PUBLISH', tag .. 'hint', string.format('d%.0f', till))
  end
end

-- lacks returns how many limits have no room for what it uses of them, one of these, and if
-- it is a rate that has none, when it has.
local function lacks(uses, limits)
  local n, last, till = 0, nil, 0
  for i, u in ipairs(uses) do
    local has, at = room(limits[i], u[3])
    till = math.max(till, at)
    if not has then
      n, last = n + 1, limits[i].id
    end
  end
  return n, last, till
end

-- kept_back reports whether a line before it, that waits for nothing else, keeps back a nested
-- line at a limit.
local function kept_back(line, u)
  local id, some = u[1] .. '\0' .. u[2], intact('ZRANGE', kept_lines(u), 0, 99, 'WITHSCORES') or {}
  for i = 1, #some, 2 do
    local place, mode, other = string.sub(some[i], 1, 14), string.sub(some[i], 15, 15), string.sub(some[i], 16)
    if other == line.id or not before(tonumber(some[i + 1]), place, line.score, line.place) then
      return false
    end
    other = line_of(other)
    if other then
      local n, last = lacks(other.uses, limits_of(other.uses))
      if n == 1 and last == id or n == 0 and mode == line_called then
        return true
      end
    end
  end
  return false
end

-- may reports whether the first run of a line may have all its permits, and returns when to look
-- at it again, and what it lacks. A nested line that is kept back is looked at again after 5 s:
-- nothing happens at its limits when the line before it comes to lack a second one.
local function may(line, limits)
  local n, last, till = lacks(line.uses, limits)
  if n > 0 then
    return false, till, n, last
  end
  for _, u in ipairs(line.uses) do
    local kept = not u[5] and intact('ZRANGE', kept_lines(u), 0, 0, 'WITHSCORES') or {}
    if kept[1] and string.sub(kept[1], 16) ~= line.id and before(tonumber(kept[2]), string.sub(kept[1], 1, 14), line.score, line.place)
      and (not nested(u) or kept_back(line, u)) then
      return false, nested(u) and math.floor(limit_now / 1000) + 5000 or till, n
    end
  end
  return true, till, n
end

local function first_shut(use)
  local from = 0
  while true do
    local some = intact('ZRANGE', kept_lines(use), from, from + 15) or {}
    for _, member in ipairs(some) do
      local line = string.sub(member, 15, 15) == line_shut and line_of(string.sub(member, 16))
      if line then
        return line
      end
    end
    if #some < 16 then
      return nil
    end
    from = from + 16
  end
end

-- call_line calls one line, which is shut, if that may go. It returns whether it did, and
-- what it lacks.
local function call_line(line, limits)
  local ok, till, n, last = may(line, limits)
  if ok or too_heavy(limits) then
    save_turn(line, line_called, math.floor(limit_now / 1000) + 5000)
    wake(line.route)
    return true
  elseif till ~= line.till and (n > 0 or line.till * 1000 <= limit_now) then
    save_turn(line, line_shut, till)
  end
  return false, n, last
end

-- call_at calls a shut line if that may go, and reports whether nobody after it may.
local function call_at(line, u)
  local called, n, last = call_line(line, limits_of(line.uses))
  return called or n == 1 and last == u[1] .. '\0' .. u[2]
end

-- call_next lets the first shut line of each limit know that its turn has come, if it may go.
-- If it waits for another limit, too, it is the turn of a nested line.
local function call_next(uses)
  for _, u in ipairs(uses) do
    local line = first_shut(u)
    if line and not call_at(line, u) then
      for _, member in ipairs(intact('ZRANGE', nested_lines(u), 0, -1) or {}) do
        line = string.sub(member, 15, 15) == line_shut and line_of(string.sub(member, 16))
        if line and call_at(line, u) then
          break
        end
      end
    end
  end
end

-- depart takes from a run the permits that it has not to its end, or takes it out of its
-- line, if it waits in that of this route. The caller saves what the run has.
local function depart(run, l, route, ended)
  if l.permits then
    if l.whole and not ended then
      return nil
    end
    l.permits = false
    count(limits_of(l.uses), -1, 0)
    return {uses = l.uses}
  elseif not route then
    return nil
  end
  local id = line_id(route, l.text)
  local line, left = line_of(id), {uses = {}}
  intact('ZREM', tag .. 'P:' .. id, l.place .. run)
  if line and line.place == l.place then
    if line.mode ~= line_open then
      left = {uses = l.uses, line = id}
    end
    relist(line, line.mode, line.till)
  end
  count(limits_of(l.uses), 0, -1)
  return left
end

-- settle calls who may go now.
local function settle(left)
  if not left then
    return
  end
  local line = left.line and line_of(left.line)
  if line then
    relist(line, line_shut, 0)
  end
  call_next(left.uses)
end

-- give_back is depart and settle of a run that will wait for nothing, in the line of route
-- until now, if that is given.
local function give_back(run, route, ended, keep)
  local l = uses_of(run)
  local left = depart(run, l, not l.off and route, ended)
  if not keep then
    l.place = ''
  end
  l.off = l.off and not ended
  save_uses(run, l)
  settle(left)
end

-- line_up puts a run that waits for permits into its line. If it comes first in a shut one,
-- that is not opened, but called if it may go: who was asked for in vain must not be passed.
-- It reports whether that will not be long: others would have been claimed by now. limits: how its limits stand, if known.
local function line_up(run, route, priority, l, limits)
  local id, score = line_id(route, l.text), priority and 0 - priority or 0
  local line = line_of(id)
  intact('ZADD', tag .. 'P:' .. id, score, l.place .. run)
  limits = limits or limits_of(l.uses)
  count(limits, 0, 1)
  if not line then
    line = {id = id, mode = line_open, route = route, text = l.text, uses = l.uses}
    relist(line, line_open, 0)
  elseif before(score, l.place, line.score, line.place) then
    relist(line, line.mode, line.till)
    if line.mode == line_shut then
      call_line(line, limits)
    end
  end
  if line.mode == line_shut then
    return false
  end
  wake(route)
  return (intact('ZCARD', tag .. 'P:' .. id) or 0) <= 128
end

-- join is line_up of a run that was ready before, or is now; order: its place if it has none.
local function join(run, header, route, priority, l, order)
  if l.place == '' then
    l.place = order or next_order()
  end
  local limits = limits_of(l.uses)
  note_wait(l, limits)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '1'), 'p', l.place, 'V', pack_has(l))
  line_up(run, route, priority, l, limits)
end

-- come gives a run that comes to be ready its place, if it has a fair key.
local function come(l, route, priority)
  if not l.key then
    return
  elseif l.off then
    l.place = ''
    return
  end
  -- Part: share
  l.place = enter_flow(route, priority and 0 - priority or 0, l.key, l.share, l.place)
end

-- queues reports whether a run waits for a worker only.
local function queues(l)
  return l.permits or l.off or #l.uses == 0
end

-- ready_limited is make_ready of a run that uses limits, or has a fair key.
local function ready_limited(run, header, route, priority, order)
  local l = uses_of(run)
  local left = depart(run, l, nil, false)
  come(l, route, priority)
  if queues(l) then
    order = l.key and l.place ~= '' and l.place or order or next_order()
    redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '1'), 'p', order, 'V', pack_has(l))
    enqueue(run, route, priority, order)
  else
    join(run, header, route, priority, l, order)
  end
  settle(left)
end

-- call_off takes a run out of its line: it is claimed without permits, only to end.
local function call_off(run, header, route, priority)
  local l = uses_of(run)
  local left = depart(run, l, route, false)
  if l.key and l.place ~= '' then
    -- Part: share
    leave_flow(route, priority and 0 - priority or 0, 1, '')
  end
  l.off, l.place = true, ''
  local order = next_order()
  redis.call('HSET', tag .. 'm:' .. run, 'H', header, 'p', order, 'V', pack_has(l))
  enqueue(run, route, priority, order)
  settle(left)
end

-- forgo lets a run that is not ready, and has no permits, go on without them once it is.
local function forgo(run)
  local l = uses_of(run)
  if not queues(l) then
    l.off = true
    save_uses(run, l)
  end
end

-- forget_waiting takes a run out of a line in which it does not belong.
local function forget_waiting(line, run)
  intact('ZREM', tag .. 'P:' .. line.id, line.place .. run)
  relist(line, line.mode, line.till)
end

-- note_vain notes that a run was asked for in vain. has: what it has of its uses.
local function note_vain(run, has)
  if has.since == 0 then
    has.since = math.floor(limit_now / 1000)
    save_uses(run, has)
  end
end

-- grant_waiting gives the first run of a line its permits, and reports whether it has; if it
-- may not have them, the line is shut. One that is too heavy goes without. l: what the run has of its uses.
local function grant_waiting(line, run, l)
  local limits = limits_of(line.uses)
  if l.permits or l.off or l.place ~= line.place then
    forget_waiting(line, run)
    return false
  end
  local heavy = too_heavy(limits)
  local ok, till = may(line, limits)
  if not ok and not heavy then
    note_vain(run, l)
    save_turn(line, line_shut, till)
    return false
  end
  l.permits, l.off = not heavy, heavy and true or false
  count(limits, heavy and 0 or 1, -1)
  intact('ZREM', tag .. 'P:' .. line.id, line.place .. run)
  save_uses(run, l)
  relist(line, line_open, 0)
  call_next(line.uses)
  return true
end

-- take_turn is what happens to a line whose time has come.
local function take_turn(id)
  intact('ZREM', tag .. 't', '~' .. id)
  local line = line_of(id)
  if not line or line.till == 0 then
    return
  elseif line.till * 1000 > limit_now then
    intact('ZADD', tag .. 't', line.till, '~' .. id)
    return
  end
  relist(line, line.mode == line_called and line_open or line.mode, 0)
  if line.mode == line_shut then -- it is not the first shut one everywhere, perhaps
    call_line(line, limits_of(line.uses))
  end
  call_next(line.uses)
end

-- guard_uses refuses a run that can never have its permits, and one that would wait where
-- nobody else may; ready: it would be ready now, owned: it would have an owner. limits are
-- those that it uses.
local function guard_uses(limits, ready, owned)
  local i, at_once = too_heavy(limits)
  if i then
    return {'too heavy', i, at_once}
  end
  for n, l in ipairs(limits) do
    if ready and (l.refuse or l.waiting > 0) then
      local beyond, retry = 0, 0
      if l.at_once > 0 then
        beyond = l.held + l.waits + l.weight - l.at_once
      end
      if l.paused then
        beyond = math.max(beyond, l.waits + l.weight)
      end
      local at = rate_wait(l, l.waits)
      if at > 0 then
        retry = at - math.floor(limit_now / 1000)
        beyond = math.max(beyond, math.floor((retry * 1000 + l.interval - 1) / l.interval))
      end
      if beyond > l.waiting or l.refuse and beyond > 0 then
        return {'full', n, retry}
      end
    end
    if owned and (not room(l, l.weight) or l.waits > 0) then
      return {'later'}
    end
  end
  return nil
end
