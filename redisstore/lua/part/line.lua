-- The limiter queues. A queue contains the runs of one route that wait for the same uses: the set
-- P: of these runs, and its record in hash Y, with the position of its first run. A position is a
-- priority score followed by an order number. Claims find an open queue as '~' and its ID in the
-- ready runs of its route, and the time of its recheck in the timers. A closed or admitted queue is
-- in the set F: of each part of a limit at which it counts, sorted by position, and in a second set
-- of each other part that it uses. Hash F contains the limits at which a queue with several limits
-- counts.

-- turned has the routes to whose ready runs a limiter queue was added, left_turns the entries that
-- were removed, by route.
local turned, left_turns = {}, {}
local line_open, line_shut, line_called = '0', '1', '2'

-- Caches of queues (false for none), of their first runs, and of the sets of queues at limits. The
-- functions below update them, so that each is read once. A script that writes these keys itself
-- must call read_again.
local lines_read, firsts_read, kept_read = {}, {}, {}
local function read_again()
  lines_read, firsts_read, kept_read = {}, {}, {}
end

-- unsaved_lines has the records by queue ID whose writes save_line defers until write_lines. If it
-- is nil, save_line writes at once.
local unsaved_lines

-- put_off defers the writes of counts and of queue records until write_put_off, which writes each
-- of them once. It serves an action that changes many of them, or one of them often. Until then
-- only the functions of this part and of part limit may read them.
local function put_off()
  unsaved_limits, unsaved_lines = unsaved_limits or {}, unsaved_lines or {}
end

local function write_lines(lines)
  local fields, gone = {}, {}
  for id, packed in pairs(lines) do
    if packed then
      fields[#fields + 1], fields[#fields + 2] = id, packed
    else
      gone[#gone + 1] = id
    end
  end
  write_fields(tag .. 'Y', fields, gone)
end

-- save_line writes the record of a queue. If packed is false, it removes the record.
local function save_line(id, packed)
  if unsaved_lines then
    unsaved_lines[id] = packed
  else
    write_lines({[id] = packed})
  end
end

local function write_put_off()
  local limits, lines = unsaved_limits, unsaved_lines
  unsaved_limits, unsaved_lines = nil, nil
  write_limits(limits or {})
  write_lines(lines or {})
end

-- nested reports whether a use belongs to nested limits.
local function nested(use)
  return use[4] == 1
end

-- nested_lines returns the key of the subset of the queues at a limit whose uses are nested.
local function nested_lines(use)
  return use.kept .. '\0'
end

local function line_id(route, text)
  return redis.sha1hex(route .. text)
end

-- standing_order returns the indexes of the uses that are not local, in the order in which a queue
-- begins to count at them: limits with keys first, then by name and key.
local function standing_order(uses)
  local order = uses.order
  if not order then
    order = {}
    for _, keyed in ipairs({true, false}) do
      for i, u in ipairs(uses) do
        if not u[5] and (u[2] ~= '') == keyed then
          order[#order + 1] = i
        end
      end
    end
    uses.order = order
  end
  return order
end

-- A queue counts at its i-th use if bit i - 1 is set.
local function bit_of(i)
  return bit.lshift(1, i - 1)
end

local function has_bit(stands, i)
  return bit.band(stands, bit_of(i)) ~= 0
end

local function everywhere(uses)
  local stands = 0
  for _, i in ipairs(standing_order(uses)) do
    stands = stands + bit_of(i)
  end
  return stands
end

-- standing_of returns the uses at which a closed or admitted queue counts, and whether it is owed:
-- a nested queue has skipped it.
local function standing_of(line)
  if line.mode == line_open then
    return 0, false
  end
  local stands, owed = nil, nil
  if line.uses[2] then
    stands, owed = string.match(intact('HGET', tag .. 'F', line.id) or '', '^(%d+) (%d)$')
  end
  return tonumber(stands) or everywhere(line.uses), owed == '1'
end

-- away_at reports whether the runs of a queue wait for another limit before the one of the i-th
-- use.
local function away_at(mode, stands, uses, i)
  return mode == line_shut and not uses[i][5] and not has_bit(stands, i)
end

-- count_away adds the runs that have entered a queue (or subtracts those that have left it) at the
-- limits where the queue does not count.
local function count_away(line, runs)
  if line.mode == line_shut and line.place and line.uses[2] then
    for i, u in ipairs(line.uses) do
      if away_at(line.mode, line.stands, line.uses, i) then
        add_away(u.id, runs * u[3])
      end
    end
  end
end

-- line_of returns a queue, or nil if no run waits in it or if its record was overwritten. The ID is
-- a digest of the route and the uses, so that the text of an overwritten record is not decoded.
local function line_of(id)
  local line = lines_read[id]
  if line == nil then
    local mode, till, score, place, route, text = string.match(intact('HGET', tag .. 'Y', id) or '', '^([012]) (%d+) (%-?%d+) (%S+) (%S+) (.*)$')
    line = false
    if mode and line_id(route, text) == id then
      line = {id = id, mode = mode, till = tonumber(till), score = tonumber(score), place = place, route = route, text = text, uses = decode_uses(text)}
      line.stands, line.owed = standing_of(line)
    end
    lines_read[id] = line
  end
  return line or nil
end

-- first_of returns the first run of a queue and its position. It also reads the second one, which
-- is needed next.
local function first_of(id)
  local first = firsts_read[id]
  if not first or first.more and not first[1] then
    first = intact('ZRANGE', tag .. 'P:' .. id, '0', '1', 'WITHSCORES') or {}
    first.more = #first == 4
    firsts_read[id] = first
  end
  return first[1] and string.sub(first[1], 15), tonumber(first[2] or 0), first[1] and string.sub(first[1], 1, 14)
end

-- come_in adds a run to a queue, go_out removes it.
local function come_in(id, score, place, run)
  firsts_read[id] = nil
  intact('ZADD', tag .. 'P:' .. id, score == 0 and '0' or score, place .. run)
end

local function go_out(id, place, run)
  local first = firsts_read[id]
  if first and first[1] == place .. run then
    firsts_read[id] = {first[3], first[4], more = first.more}
  else
    firsts_read[id] = nil
  end
  return intact('ZREM', tag .. 'P:' .. id, place .. run) or 0
end

-- kept_first returns the first closed and admitted queues that count at a limit, up to 16, with
-- their positions; field more is whether there may be further ones.
local function kept_first(use)
  local kept = kept_read[use.kept]
  if not kept then
    kept = intact('ZRANGE', use.kept, '0', '15', 'WITHSCORES') or {}
    kept.more = #kept == 32
    kept_read[use.kept] = kept
  end
  return kept
end

-- before reports whether a position precedes another one.
local function before(score, place, other, there)
  return score < other or score == other and place < there
end

-- list_kept adds a queue to those that count at a limit, unlist_kept removes it.
local function list_kept(use, line, rank)
  local member, kept = line.place .. line.mode .. line.id, kept_read[use.kept]
  intact('ZADD', use.kept, rank, member)
  if nested(use) then
    intact('ZADD', nested_lines(use), rank, member)
  end
  local at = 1
  while kept and kept[at] and before(tonumber(kept[at + 1]), kept[at], line.score, member) do
    at = at + 2
  end
  if kept and (kept[at] or not kept.more) then
    table.insert(kept, at, rank)
    table.insert(kept, at, member)
  end
end

local function unlist_kept(use, line)
  local member, kept = line.place .. line.mode .. line.id, kept_read[use.kept]
  intact('ZREM', use.kept, member)
  if nested(use) then
    intact('ZREM', nested_lines(use), member)
  end
  for at = 1, kept and #kept or 0, 2 do
    if kept[at] == member then
      table.remove(kept, at)
      table.remove(kept, at)
      break
    end
  end
  if kept and kept.more and not kept[1] then
    kept_read[use.kept] = nil
  end
end

-- unlist removes a queue from all indexes. It has no position afterwards.
local function unlist(line)
  if not line.place then
    return
  end
  if line.mode ~= line_shut then
    local left = left_turns[line.route] or {}
    left_turns[line.route], left[#left + 1] = left, line.place .. '~' .. line.id
    intact('ZREM', tag .. 'r:' .. line.route, left[#left])
  end
  if line.till > 0 then
    intact('ZREM', tag .. 't', '~' .. line.id)
  end
  if line.mode ~= line_open then
    for i, u in ipairs(line.uses) do
      if has_bit(line.stands, i) then
        unlist_kept(u, line)
      else
        intact('ZREM', u.away, line.place .. line.mode .. line.id)
      end
    end
  end
  line.place = nil
end

-- count_moved counts the runs of a queue at the limits for which the queue begins or ceases to wait
-- for another limit first.
local function count_moved(line, was_mode, was)
  local runs
  for i, u in ipairs(line.uses) do
    local before, now = away_at(was_mode, was, line.uses, i), away_at(line.mode, line.stands, line.uses, i)
    if before ~= now then
      runs = runs or intact('ZCARD', tag .. 'P:' .. line.id) or 0
      add_away(u.id, (now and runs or -runs) * u[3])
    end
  end
end

-- relist updates the indexes for the mode and the first run of a queue, and removes the queue if no
-- run waits in it. stands is the set of uses at which a closed queue counts; nil keeps the previous
-- one.
local function relist(line, mode, till, stands)
  local was_mode, was = line.place and line.mode or line_open, line.stands
  unlist(line)
  local run, score, place = first_of(line.id)
  lines_read[line.id] = run and line or false
  if not run then
    if line.uses[2] and was_mode ~= line_open then
      intact('HDEL', tag .. 'F', line.id)
    end
    save_line(line.id, false)
    return
  end
  line.mode, line.till, line.score, line.place = mode, till, score, place
  if mode == line_open then
    line.stands, line.owed = 0, false
  elseif mode == line_called then
    line.stands, line.owed = everywhere(line.uses), false
  else
    line.stands = stands or was
  end
  local at, rank = string.format('%.0f', till), score == 0 and '0' or string.format('%.0f', score)
  if mode ~= line_shut then
    turned[line.route] = true
    intact('ZADD', tag .. 'r:' .. line.route, rank, place .. '~' .. line.id)
  end
  if mode ~= line_open then
    for i, u in ipairs(line.uses) do
      if has_bit(line.stands, i) then
        list_kept(u, line, rank)
      else
        intact('ZADD', u.away, rank, place .. mode .. line.id)
      end
    end
  end
  if line.uses[2] then
    if mode ~= line_open then
      intact('HSET', tag .. 'F', line.id, string.format('%.0f %d', line.stands, line.owed and 1 or 0))
    elseif was_mode ~= line_open then
      intact('HDEL', tag .. 'F', line.id)
    end
    count_moved(line, was_mode, was)
  end
  if till > 0 then
    intact('ZADD', tag .. 't', at, '~' .. line.id)
  end
  save_line(line.id, table.concat({mode, at, rank, place, line.route, line.text}, ' '))
end

-- save_turn is relist with a notification if the queue becomes the earliest timer.
local function save_turn(line, mode, till, stands)
  local first = till > 0 and intact('ZRANGE', tag .. 't', '0', '1', 'WITHSCORES') or {}
  local other = first[1] == '~' .. line.id and 3 or 1 -- skip the previous time of this queue
  relist(line, mode, till, stands)
  if till > 0 and line.place and (not first[other + 1] or till < tonumber(first[other + 1])) then
    wake(line.route)
    redis.call('PUBLISH', tag .. 'hint', string.format('d%.0f', till))
  end
end

-- lacks returns the number of limits without free capacity for the uses, the ID of one of these
-- limits, and the time at which the rates among them have capacity.
local function lacks(uses)
  local n, last, till = 0, nil, 0
  for _, u in ipairs(with_limits(uses)) do
    local has, at = room(u.limit, u[3])
    till = math.max(till, at)
    if not has then
      n, last = n + 1, u.id
    end
  end
  return n, last, till
end

-- kept_back reports whether a nested queue is held back at a limit by an earlier queue that waits
-- for nothing else.
local function kept_back(line, u)
  local some = intact('ZRANGE', u.kept, '0', '99', 'WITHSCORES') or {}
  for i = 1, #some, 2 do
    local place, mode, other = string.sub(some[i], 1, 14), string.sub(some[i], 15, 15), string.sub(some[i], 16)
    if other == line.id or not before(tonumber(some[i + 1]), place, line.score, line.place) then
      return false
    end
    other = line_of(other)
    if other then
      local n, last = lacks(other.uses)
      if n == 1 and last == u.id or n == 0 and mode == line_called then
        return true
      end
    end
  end
  return false
end

-- look_again_at returns the time at which a queue that may not be admitted must be rechecked, as
-- lookAgain of package protocol does. A nested queue is rechecked after 5 s at the latest, because
-- its limits do not change when an earlier queue begins to lack a second limit.
local function look_again_at(uses, till)
  if not nested(uses[1]) then
    return till
  end
  local latest = math.floor(limit_now / 1000) + 5000
  return till == 0 and latest or math.min(till, latest)
end

-- held_back reports whether an earlier queue that counts at a limit holds back the given queue
-- there.
local function held_back(line, u)
  -- If no other run waits for the limit, there is no queue to read.
  local kept = u.limit.waits > u[3] and kept_first(u) or {}
  return kept[1] and string.sub(kept[1], 16) ~= line.id and before(tonumber(kept[2]), string.sub(kept[1], 1, 14), line.score, line.place)
    and (not nested(u) or kept_back(line, u))
end

-- counts_at returns the uses at which a closed queue counts, and whether all limits admit it.
local function counts_at(line)
  local order, at = standing_order(line.uses), 0
  for _, i in ipairs(order) do
    if line.uses[i].limit.paused then
      return bit_of(i), false
    end
  end
  for _, i in ipairs(order) do
    local u = line.uses[i]
    at = at + bit_of(i)
    if not room(u.limit, u[3]) and not line.owed or held_back(line, u) then
      return at, false
    end
  end
  return at, true
end

-- stand returns whether the first run of a queue may have all its permits, when to recheck the
-- queue, how many limits it lacks and one of them, and the uses at which the queue counts while it
-- is closed.
local function stand(line)
  local n, last, till = lacks(line.uses)
  local at, admitted = counts_at(line)
  local may = admitted and n == 0
  return may, may and till or look_again_at(line.uses, till), n, last, at
end

-- changed_at returns the uses at whose limits a queue begins or ceases to count.
local function changed_at(line, was)
  local changed = {}
  for i, u in ipairs(line.uses) do
    if has_bit(was, i) ~= has_bit(line.stands, i) then
      changed[#changed + 1] = u
    end
  end
  return changed
end

-- owe records that a nested queue skips others, which keep counting where they do. See owe of
-- package protocol.
local function owe(line)
  for _, u in ipairs(line.uses) do
    local some = not u[5] and intact('ZRANGE', u.kept, '0', '99', 'WITHSCORES') or {}
    for i = 1, #some, 2 do
      local id = string.sub(some[i], 16)
      if id == line.id or not before(tonumber(some[i + 1]), string.sub(some[i], 1, 14), line.score, line.place) then
        break
      end
      local passed = line_of(id)
      if passed and passed.mode == line_shut and not passed.owed then
        local past = false
        for _, k in ipairs(standing_order(passed.uses)) do
          if past and has_bit(passed.stands, k) then
            passed.owed = true
          end
          past = past or passed.uses[k].id == u.id
        end
        if passed.owed then
          relist(passed, line_shut, passed.till)
        end
      end
    end
  end
end

-- shut_lines returns the first two closed queues that count at a limit, and all queues with the
-- position of the second one: queues of different routes may have the same position, and none of
-- these holds back the others.
local function shut_lines(use)
  local from, some, shut, score, place = 0, kept_first(use), {}, nil, nil
  while true do
    for i = 1, #some, 2 do
      if score and (some[i + 1] ~= score or string.sub(some[i], 1, 14) ~= place) then
        return shut
      end
      shut[#shut + 1] = string.sub(some[i], 15, 15) == line_shut and line_of(string.sub(some[i], 16)) or nil
      if shut[2] and not score then
        score, place = some[i + 1], string.sub(some[i], 1, 14)
      end
    end
    if not some.more then
      return shut
    end
    from = from + #some / 2
    some = intact('ZRANGE', use.kept, from, from + 15, 'WITHSCORES') or {}
    some.more = #some == 32
  end
end

-- hand_on grants the first run of a closed queue that may be admitted directly to a session, if the
-- script has a session for it. It reports whether it did.
local hand_on

-- call_line admits one queue that is closed or admitted, if its limits allow it. Otherwise it
-- closes the queue, which then counts where it may. It returns whether the queue was admitted, what
-- it lacks, and the uses at whose limits it begins or ceases to count.
local function call_line(line)
  local was = line.stands
  local ok, till, n, last, at = stand(line)
  if ok and hand_on and hand_on(line) then
    return true, n, last, {}
  elseif ok or too_heavy(line.uses) then
    save_turn(line, line_called, math.floor(limit_now / 1000) + 5000)
    wake(line.route)
    return true, n, last, changed_at(line, was)
  end
  if line.mode == line_shut and line.till * 1000 > limit_now and (n == 0 or nested(line.uses[1]) and line.till < till) then
    till = line.till -- the existing recheck is early enough
  end
  if line.mode ~= line_shut or till ~= line.till or at ~= was then
    save_turn(line, line_shut, till, at)
    return false, n, last, changed_at(line, was)
  end
  return false, n, last, {}
end

-- look_at examines the first two closed queues that count at a limit: the first one may be admitted
-- or may have lost its admission, and the second one may have been the first. If the first one also
-- waits for another limit, a nested queue may be admitted instead. It returns after the first queue
-- that moves, with the uses at whose limits that changes something.
local function look_at(u)
  local done, called, n, last, changed = false, nil, nil, nil, nil
  local read = limits_read[u.id]
  if read and read.waits == 0 then
    return {}
  end
  local shut = shut_lines(u)
  for i, line in ipairs(shut) do
    if line.place and line.mode == line_shut then -- the grant of a run may have changed it
      called, n, last, changed = call_line(line)
      if changed[1] then
        return changed
      end
      done = done or i == 1 and (called or n == 1 and last == u.id)
    end
  end
  if done or not shut[1] then
    return {}
  end
  for _, member in ipairs(intact('ZRANGE', nested_lines(u), '0', '-1') or {}) do
    local line = string.sub(member, 15, 15) == line_shut and line_of(string.sub(member, 16))
    if line and line.mode == line_shut then
      called, n, last, changed = call_line(line)
      if changed[1] or called or n == 1 and last == u.id then
        return changed
      end
    end
  end
  return {}
end

-- call_next examines the limits of uses at which something has changed, and each limit at which a
-- queue begins or ceases to count as a result. The number of iterations is bounded as in look of
-- package protocol.
local function call_next(uses)
  local left = {}
  for i = #uses, 1, -1 do
    left[#left + 1] = uses[i]
  end
  for _ = 1, 1000 do
    local u = left[#left]
    if not u then
      return
    end
    local changed = look_at(u)
    if not changed[1] then
      left[#left] = nil
    end
    for i = #changed, 1, -1 do
      left[#left + 1] = changed[i]
    end
  end
end

-- restand updates a closed or admitted queue to the present state of its limits. An admitted queue
-- without free capacity is closed.
local function restand(line)
  with_limits(line.uses)
  if line.mode == line_open or line.mode == line_called and (lacks(line.uses) == 0 or too_heavy(line.uses)) then
    return
  end
  local _, _, _, changed = call_line(line)
  call_next(changed)
end

-- depart takes the permits of a run, unless the run keeps them to its end, or removes the run from
-- its limiter queue if route is set. The caller saves the state of the run.
local function depart(run, l, route, ended)
  if l.permits then
    if l.whole and not ended then
      return nil
    end
    l.permits = false
    count(l.uses, -1, 0)
    return {uses = l.uses}
  elseif not route then
    return nil
  end
  local id = line_id(route, l.text)
  local line, left = line_of(id), {uses = {}}
  local gone = go_out(id, l.place, run)
  if line then
    count_away(line, -gone)
  end
  if line and line.place == l.place then
    if line.mode ~= line_open then
      left = {uses = l.uses, line = id}
    end
    relist(line, line.mode, line.till)
  end
  count(l.uses, 0, -1)
  return left
end

-- settle admits the queues that may continue after depart.
local function settle(left)
  if not left then
    return
  end
  local line = left.line and line_of(left.line)
  if line then
    line.owed = false
    save_turn(line, line_shut, 0)
    restand(line)
  end
  call_next(left.uses)
end

-- give_back is depart and settle for a run that stops waiting. route is set if the run is in the
-- limiter queue of that route. l is the state of its uses, if known.
local function give_back(run, route, ended, keep, l)
  l = l or uses_of(run)
  local left = depart(run, l, not l.off and route, ended)
  if not keep then
    l.place = ''
  end
  l.off = l.off and not ended
  save_uses(run, l)
  settle(left)
end

-- forget_waiting removes a run from a queue in which it does not belong.
local function forget_waiting(line, run)
  count_away(line, -go_out(line.id, line.place, run))
  relist(line, line.mode, line.till)
end

-- note_vain records that the permits of a run were requested in vain. has is the state of its uses.
local function note_vain(run, has)
  if has.since == 0 then
    has.since = math.floor(limit_now / 1000)
    save_uses(run, has)
  end
end

-- grant_waiting gives the first run of a queue its permits, and reports whether it did. If the run
-- may not have them, it closes the queue. A run that is too heavy continues without permits. l is
-- the state of the uses of the run, which the caller writes.
local function grant_waiting(line, run, l)
  if l.permits or l.off or l.place ~= line.place then
    forget_waiting(line, run)
    return false
  end
  local heavy = too_heavy(with_limits(line.uses))
  local ok, till, _, _, at = stand(line)
  if not ok and not heavy then
    local was = line.stands
    note_vain(run, l)
    save_turn(line, line_shut, till, at)
    call_next(changed_at(line, was))
    return false
  end
  if nested(line.uses[1]) and not heavy then
    owe(line)
  end
  l.permits, l.off = not heavy, heavy and true or false
  count(line.uses, heavy and 0 or 1, -1)
  count_away(line, -go_out(line.id, line.place, run))
  relist(line, line_open, 0)
  call_next(line.uses)
  return true
end

-- take_turn ends the admission of a queue whose time has passed, or tries to admit the queue if it
-- is closed.
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
  if line.mode == line_shut then -- it may not be the first closed queue at every limit
    local _, _, _, changed = call_line(line)
    call_next(changed)
  end
  call_next(line.uses)
end
