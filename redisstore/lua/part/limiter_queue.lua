-- The limiter queues. A queue contains the runs of one route that wait for the same uses: the set
-- P: of these runs, and its record in hash Y, with the position of its first run. A position is a
-- priority score followed by an order number. Claims find an open queue as '~' and its ID in the
-- ready runs of its route, and the time of its recheck in the timers. A closed or admitted queue is
-- in the set F: of each part of a limit at which it counts, sorted by position, and in a second set
-- of each other part that it uses. Hash F contains the limits at which a queue with several limits
-- counts.

-- turned contains the routes whose ready runs a limiter queue was added to. left_positions contains
-- the entries that were removed, by route.
local turned, left_positions = {}, {}
local limiter_open, limiter_closed, limiter_admitted = '0', '1', '2'

-- Caches of queues (false for a missing one), of their first runs, and of the sets of queues at
-- limits. The functions of this part update them, so that each value is read only once. A script
-- that writes these keys without these functions must call reread.
local limiters_read, firsts_read, kept_read = {}, {}, {}
local function reread()
  limiters_read, firsts_read, kept_read = {}, {}, {}
end

-- unsaved_limiters contains the records that save_limiter does not write until write_limiters is
-- called, by queue ID. If it is nil, save_limiter writes at once.
local unsaved_limiters

-- put_off defers the writes of counts and of queue records until write_put_off, which writes each
-- value once. An action uses it if it changes many values or changes one value often. Before
-- write_put_off, only the functions of this part and of part limit may read these values.
local function put_off()
  unsaved_limits, unsaved_limiters = unsaved_limits or {}, unsaved_limiters or {}
end

local function write_limiters(limiters)
  local fields, gone = {}, {}
  for id, packed in pairs(limiters) do
    if packed then
      fields[#fields + 1], fields[#fields + 2] = id, packed
    else
      gone[#gone + 1] = id
    end
  end
  write_fields(tag .. 'Y', fields, gone)
end

-- save_limiter writes the record of a queue. If packed is false, it removes the record.
local function save_limiter(id, packed)
  if unsaved_limiters then
    unsaved_limiters[id] = packed
  else
    write_limiters({[id] = packed})
  end
end

local function write_put_off()
  local limits, limiters = unsaved_limits, unsaved_limiters
  unsaved_limits, unsaved_limiters = nil, nil
  write_limits(limits or {})
  write_limiters(limiters or {})
end

-- nested reports whether a use belongs to nested limits.
local function nested(use)
  return use[4] == 1
end

-- nested_limiters returns the key of the subset of the queues at a limit whose uses are nested.
local function nested_limiters(use)
  return use.kept .. '\0'
end

local function limiter_id(route, text)
  return redis.sha1hex(route .. text)
end

-- standing_order returns the indexes of the uses that are not local, in the order in which a queue
-- begins to count at their limits. Limits with keys come first; within both groups the order is by
-- name and key.
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

-- standing_of returns the uses at which a closed or admitted queue counts. It also returns whether
-- the queue is owed an admission, because a nested queue has overtaken it.
local function standing_of(limiter)
  if limiter.mode == limiter_open then
    return 0, false
  end
  local stands, owed = nil, nil
  if limiter.uses[2] then
    stands, owed = string.match(intact('HGET', tag .. 'F', limiter.id) or '', '^(%d+) (%d)$')
  end
  return tonumber(stands) or everywhere(limiter.uses), owed == '1'
end

-- away_at reports whether the runs of a queue wait for another limit before the limit of use i.
local function away_at(mode, stands, uses, i)
  return mode == limiter_closed and not uses[i][5] and not has_bit(stands, i)
end

-- count_away changes the weights of runs that wait for another limit first. runs is the number of
-- runs that have entered the queue, or a negative number if they have left it. The weights change
-- at the limits where the queue does not count.
local function count_away(limiter, runs)
  if limiter.mode == limiter_closed and limiter.place and limiter.uses[2] then
    for i, u in ipairs(limiter.uses) do
      if away_at(limiter.mode, limiter.stands, limiter.uses, i) then
        add_away(u.id, runs * u[3])
      end
    end
  end
end

-- limiter_of returns the queue with the given ID. It returns nil if no run waits in the queue or if
-- the record was overwritten. The ID is a digest of the route and the uses, so an overwritten
-- record is never decoded.
local function limiter_of(id)
  local limiter = limiters_read[id]
  if limiter == nil then
    local mode, till, score, place, route, text = string.match(intact('HGET', tag .. 'Y', id) or '', '^([012]) (%d+) (%-?%d+) (%S+) (%S+) (.*)$')
    limiter = false
    if mode and limiter_id(route, text) == id then
      limiter = {id = id, mode = mode, till = tonumber(till), score = tonumber(score), place = place, route = route, text = text, uses = decode_uses(text)}
      limiter.stands, limiter.owed = standing_of(limiter)
    end
    limiters_read[id] = limiter
  end
  return limiter or nil
end

-- first_of returns the first run of a queue and its position. It also reads the second run, which
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

-- come_in adds a run to a queue. go_out removes it.
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

-- kept_first returns the first closed and admitted queues that count at a limit, at most 16, with
-- their positions. Field more reports whether there may be further queues.
local function kept_first(use)
  local kept = kept_read[use.kept]
  if not kept then
    kept = intact('ZRANGE', use.kept, '0', '15', 'WITHSCORES') or {}
    kept.more = #kept == 32
    kept_read[use.kept] = kept
  end
  return kept
end

-- before reports whether a position precedes another position.
local function before(score, place, other, there)
  return score < other or score == other and place < there
end

-- list_kept adds a queue to the queues that count at a limit. unlist_kept removes it.
local function list_kept(use, limiter, rank)
  local member, kept = limiter.place .. limiter.mode .. limiter.id, kept_read[use.kept]
  intact('ZADD', use.kept, rank, member)
  if nested(use) then
    intact('ZADD', nested_limiters(use), rank, member)
  end
  local at = 1
  while kept and kept[at] and before(tonumber(kept[at + 1]), kept[at], limiter.score, member) do
    at = at + 2
  end
  if kept and (kept[at] or not kept.more) then
    table.insert(kept, at, rank)
    table.insert(kept, at, member)
  end
end

local function unlist_kept(use, limiter)
  local member, kept = limiter.place .. limiter.mode .. limiter.id, kept_read[use.kept]
  intact('ZREM', use.kept, member)
  if nested(use) then
    intact('ZREM', nested_limiters(use), member)
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

-- unlist removes a queue from all indexes, so that it has no position.
local function unlist(limiter)
  if not limiter.place then
    return
  end
  if limiter.mode ~= limiter_closed then
    local left = left_positions[limiter.route] or {}
    left_positions[limiter.route], left[#left + 1] = left, limiter.place .. '~' .. limiter.id
    intact('ZREM', tag .. 'r:' .. limiter.route, left[#left])
  end
  if limiter.till > 0 then
    intact('ZREM', tag .. 't', '~' .. limiter.id)
  end
  if limiter.mode ~= limiter_open then
    for i, u in ipairs(limiter.uses) do
      if has_bit(limiter.stands, i) then
        unlist_kept(u, limiter)
      else
        intact('ZREM', u.away, limiter.place .. limiter.mode .. limiter.id)
      end
    end
  end
  limiter.place = nil
end

-- count_moved changes the counts of the runs of a queue at the limits for which the queue begins or
-- stops to wait for another limit first.
local function count_moved(limiter, was_mode, was)
  local runs
  for i, u in ipairs(limiter.uses) do
    local before, now = away_at(was_mode, was, limiter.uses, i), away_at(limiter.mode, limiter.stands, limiter.uses, i)
    if before ~= now then
      runs = runs or intact('ZCARD', tag .. 'P:' .. limiter.id) or 0
      add_away(u.id, (now and runs or -runs) * u[3])
    end
  end
end

-- relist updates the indexes for the mode and the first run of a queue. It removes the queue if no
-- run waits in it. stands contains the uses at which a closed queue counts; nil keeps the previous
-- ones.
local function relist(limiter, mode, till, stands)
  local was_mode, was = limiter.place and limiter.mode or limiter_open, limiter.stands
  unlist(limiter)
  local run, score, place = first_of(limiter.id)
  limiters_read[limiter.id] = run and limiter or false
  if not run then
    if limiter.uses[2] and was_mode ~= limiter_open then
      intact('HDEL', tag .. 'F', limiter.id)
    end
    save_limiter(limiter.id, false)
    return
  end
  limiter.mode, limiter.till, limiter.score, limiter.place = mode, till, score, place
  if mode == limiter_open then
    limiter.stands, limiter.owed = 0, false
  elseif mode == limiter_admitted then
    limiter.stands, limiter.owed = everywhere(limiter.uses), false
  else
    limiter.stands = stands or was
  end
  local at, rank = string.format('%.0f', till), score == 0 and '0' or string.format('%.0f', score)
  if mode ~= limiter_closed then
    turned[limiter.route] = true
    intact('ZADD', tag .. 'r:' .. limiter.route, rank, place .. '~' .. limiter.id)
  end
  if mode ~= limiter_open then
    for i, u in ipairs(limiter.uses) do
      if has_bit(limiter.stands, i) then
        list_kept(u, limiter, rank)
      else
        intact('ZADD', u.away, rank, place .. mode .. limiter.id)
      end
    end
  end
  if limiter.uses[2] then
    if mode ~= limiter_open then
      intact('HSET', tag .. 'F', limiter.id, string.format('%.0f %d', limiter.stands, limiter.owed and 1 or 0))
    elseif was_mode ~= limiter_open then
      intact('HDEL', tag .. 'F', limiter.id)
    end
    count_moved(limiter, was_mode, was)
  end
  if till > 0 then
    intact('ZADD', tag .. 't', at, '~' .. limiter.id)
  end
  save_limiter(limiter.id, table.concat({mode, at, rank, place, limiter.route, limiter.text}, ' '))
end

-- save_position is like relist, but also publishes a notification if the queue becomes the earliest
-- timer.
local function save_position(limiter, mode, till, stands)
  local first = till > 0 and intact('ZRANGE', tag .. 't', '0', '1', 'WITHSCORES') or {}
  local other = first[1] == '~' .. limiter.id and 3 or 1 -- the previous timer of this queue is skipped
  relist(limiter, mode, till, stands)
  if till > 0 and limiter.place and (not first[other + 1] or till < tonumber(first[other + 1])) then
    wake(limiter.route)
    redis.call('PUBLISH', tag .. 'hint', string.format('d%.0f', till))
  end
end

-- lacks returns the number of limits of the uses without free capacity, the ID of one of these
-- limits, and the time at which their rates have capacity.
local function lacks(uses)
  local n, last, till = 0, nil, 0
  for _, u in ipairs(with_limits(uses)) do
    local has, at = has_capacity(u.limit, u[3])
    till = math.max(till, at)
    if not has then
      n, last = n + 1, u.id
    end
  end
  return n, last, till
end

-- kept_back reports whether a nested queue is held back at a limit by an earlier queue that waits
-- for nothing else.
local function kept_back(limiter, u)
  local some = intact('ZRANGE', u.kept, '0', '99', 'WITHSCORES') or {}
  for i = 1, #some, 2 do
    local place, mode, other = string.sub(some[i], 1, 14), string.sub(some[i], 15, 15), string.sub(some[i], 16)
    if other == limiter.id or not before(tonumber(some[i + 1]), place, limiter.score, limiter.place) then
      return false
    end
    other = limiter_of(other)
    if other then
      local n, last = lacks(other.uses)
      if n == 1 and last == u.id or n == 0 and mode == limiter_admitted then
        return true
      end
    end
  end
  return false
end

-- recheck_at returns the time at which a queue that may not be admitted must be rechecked, as
-- recheck of package protocol does. A nested queue is rechecked after at most 5 s, because its
-- limits do not change when an earlier queue begins to lack a second limit.
local function recheck_at(uses, till)
  if not nested(uses[1]) then
    return till
  end
  local latest = math.floor(limit_now / 1000) + 5000
  return till == 0 and latest or math.min(till, latest)
end

-- held_back reports whether an earlier queue that counts at the limit of a use holds back the given
-- queue.
local function held_back(limiter, u)
  -- If no other run waits for the limit, no queue needs to be read.
  local kept = u.limit.waits > u[3] and kept_first(u) or {}
  return kept[1] and string.sub(kept[1], 16) ~= limiter.id and before(tonumber(kept[2]), string.sub(kept[1], 1, 14), limiter.score, limiter.place)
    and (not nested(u) or kept_back(limiter, u))
end

-- counts_at returns the uses at which a closed queue counts, and whether all limits permit its
-- admission.
local function counts_at(limiter)
  local order, at = standing_order(limiter.uses), 0
  for _, i in ipairs(order) do
    if limiter.uses[i].limit.paused then
      return bit_of(i), false
    end
  end
  for _, i in ipairs(order) do
    local u = limiter.uses[i]
    at = at + bit_of(i)
    if not has_capacity(u.limit, u[3]) and not limiter.owed or held_back(limiter, u) then
      return at, false
    end
  end
  return at, true
end

-- stand returns whether the first run of a queue may have all its permits, the time of the next
-- recheck, the number of limits that the queue lacks, one of these limits, and the uses at which
-- the queue counts while it is closed.
local function stand(limiter)
  local n, last, till = lacks(limiter.uses)
  local at, admitted = counts_at(limiter)
  local may = admitted and n == 0
  return may, may and till or recheck_at(limiter.uses, till), n, last, at
end

-- changed_at returns the uses at whose limits a queue begins or stops to count.
local function changed_at(limiter, was)
  local changed = {}
  for i, u in ipairs(limiter.uses) do
    if has_bit(was, i) ~= has_bit(limiter.stands, i) then
      changed[#changed + 1] = u
    end
  end
  return changed
end

-- owe records that a nested queue overtakes other queues, which keep counting at their limits. See
-- owe of package protocol.
local function owe(limiter)
  for _, u in ipairs(limiter.uses) do
    local some = not u[5] and intact('ZRANGE', u.kept, '0', '99', 'WITHSCORES') or {}
    for i = 1, #some, 2 do
      local id = string.sub(some[i], 16)
      if id == limiter.id or not before(tonumber(some[i + 1]), string.sub(some[i], 1, 14), limiter.score, limiter.place) then
        break
      end
      local passed = limiter_of(id)
      if passed and passed.mode == limiter_closed and not passed.owed then
        local past = false
        for _, k in ipairs(standing_order(passed.uses)) do
          if past and has_bit(passed.stands, k) then
            passed.owed = true
          end
          past = past or passed.uses[k].id == u.id
        end
        if passed.owed then
          relist(passed, limiter_closed, passed.till)
        end
      end
    end
  end
end

-- closed_limiters returns the first two closed queues that count at a limit, and all queues with the
-- position of the second one: queues of different routes may have the same position, and none of
-- these holds back the others.
local function closed_limiters(use)
  local from, some, closed, score, place = 0, kept_first(use), {}, nil, nil
  while true do
    for i = 1, #some, 2 do
      if score and (some[i + 1] ~= score or string.sub(some[i], 1, 14) ~= place) then
        return closed
      end
      closed[#closed + 1] = string.sub(some[i], 15, 15) == limiter_closed and limiter_of(string.sub(some[i], 16)) or nil
      if closed[2] and not score then
        score, place = some[i + 1], string.sub(some[i], 1, 14)
      end
    end
    if not some.more then
      return closed
    end
    from = from + #some / 2
    some = intact('ZRANGE', use.kept, from, from + 15, 'WITHSCORES') or {}
    some.more = #some == 32
  end
end

-- hand_on grants the first run of a closed queue directly to a session if the queue may be admitted
-- and the script has a session for it. It reports whether it did. It is nil if the script has no
-- session.
local hand_on

-- admit_limiter admits a closed or admitted queue if its limits permit it. Otherwise it closes the
-- queue, which then counts at the limits where it may. It returns whether the queue was admitted,
-- the limits that the queue lacks, and the uses at whose limits it begins or stops to count.
local function admit_limiter(limiter)
  local was = limiter.stands
  local ok, till, n, last, at = stand(limiter)
  if ok and hand_on and hand_on(limiter) then
    return true, n, last, {}
  elseif ok or too_heavy(limiter.uses) then
    save_position(limiter, limiter_admitted, math.floor(limit_now / 1000) + 5000)
    wake(limiter.route)
    return true, n, last, changed_at(limiter, was)
  end
  if limiter.mode == limiter_closed and limiter.till * 1000 > limit_now and (n == 0 or nested(limiter.uses[1]) and limiter.till < till) then
    till = limiter.till -- the existing recheck is not later
  end
  if limiter.mode ~= limiter_closed or till ~= limiter.till or at ~= was then
    save_position(limiter, limiter_closed, till, at)
    return false, n, last, changed_at(limiter, was)
  end
  return false, n, last, {}
end

-- look_at examines the first two closed queues that count at a limit: the first one may be admitted
-- or may have lost its admission, and the second one may have been the first. If the first one also
-- waits for another limit, a nested queue may be admitted instead. It returns after the first queue
-- that moves, with the uses at whose limits that changes something.
local function look_at(u)
  local done, admitted, n, last, changed = false, nil, nil, nil, nil
  local read = limits_read[u.id]
  if read and read.waits == 0 then
    return {}
  end
  local closed = closed_limiters(u)
  for i, limiter in ipairs(closed) do
    if limiter.place and limiter.mode == limiter_closed then -- the grant of a run may have changed the queue
      admitted, n, last, changed = admit_limiter(limiter)
      if changed[1] then
        return changed
      end
      done = done or i == 1 and (admitted or n == 1 and last == u.id)
    end
  end
  if done or not closed[1] then
    return {}
  end
  for _, member in ipairs(intact('ZRANGE', nested_limiters(u), '0', '-1') or {}) do
    local limiter = string.sub(member, 15, 15) == limiter_closed and limiter_of(string.sub(member, 16))
    if limiter and limiter.mode == limiter_closed then
      admitted, n, last, changed = admit_limiter(limiter)
      if changed[1] or admitted or n == 1 and last == u.id then
        return changed
      end
    end
  end
  return {}
end

-- call_next examines the limits of uses at which something has changed, and each limit at which a
-- queue begins or stops to count as a result. The number of iterations is bounded as in look of
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

-- restand updates a closed or admitted queue to the current states of its limits. It closes an
-- admitted queue without free capacity.
local function restand(limiter)
  with_limits(limiter.uses)
  if limiter.mode == limiter_open or limiter.mode == limiter_admitted and (lacks(limiter.uses) == 0 or too_heavy(limiter.uses)) then
    return
  end
  local _, _, _, changed = admit_limiter(limiter)
  call_next(changed)
end

-- depart takes the permits of a run, unless the run keeps them until its end. If route is set, it
-- removes the run from its limiter queue instead. The caller must save the state of the run.
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
  local id = limiter_id(route, l.text)
  local limiter, left = limiter_of(id), {uses = {}}
  local gone = go_out(id, l.place, run)
  if limiter then
    count_away(limiter, -gone)
  end
  if limiter and limiter.place == l.place then
    if limiter.mode ~= limiter_open then
      left = {uses = l.uses, limiter = id}
    end
    relist(limiter, limiter.mode, limiter.till)
  end
  count(l.uses, 0, -1)
  return left
end

-- settle admits the queues that may continue because of depart.
local function settle(left)
  if not left then
    return
  end
  local limiter = left.limiter and limiter_of(left.limiter)
  if limiter then
    limiter.owed = false
    save_position(limiter, limiter_closed, 0)
    restand(limiter)
  end
  call_next(left.uses)
end

-- give_back calls depart and settle for a run that stops waiting. route is set if the run is in the
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

-- forget_waiting removes a run from a queue that should not contain it.
local function forget_waiting(limiter, run)
  count_away(limiter, -go_out(limiter.id, limiter.place, run))
  relist(limiter, limiter.mode, limiter.till)
end

-- note_vain records that permits of a run were requested in vain. has is the state of the uses of
-- the run.
local function note_vain(run, has)
  if has.since == 0 then
    has.since = math.floor(limit_now / 1000)
    save_uses(run, has)
  end
end

-- grant_waiting gives the first run of a queue its permits, and reports whether it did. If the run
-- may not have them, it closes the queue. A run that is too heavy continues without permits. l is
-- the state of the uses of the run, which the caller writes.
local function grant_waiting(limiter, run, l)
  if l.permits or l.off or l.place ~= limiter.place then
    forget_waiting(limiter, run)
    return false
  end
  local heavy = too_heavy(with_limits(limiter.uses))
  local ok, till, _, _, at = stand(limiter)
  if not ok and not heavy then
    local was = limiter.stands
    note_vain(run, l)
    save_position(limiter, limiter_closed, till, at)
    call_next(changed_at(limiter, was))
    return false
  end
  if nested(limiter.uses[1]) and not heavy then
    owe(limiter)
  end
  l.permits, l.off = not heavy, heavy and true or false
  count(limiter.uses, heavy and 0 or 1, -1)
  count_away(limiter, -go_out(limiter.id, limiter.place, run))
  relist(limiter, limiter_open, 0)
  call_next(limiter.uses)
  return true
end

-- take_position ends the admission of a queue whose time has passed, or tries to admit the queue if it
-- is closed.
local function take_position(id)
  intact('ZREM', tag .. 't', '~' .. id)
  local limiter = limiter_of(id)
  if not limiter or limiter.till == 0 then
    return
  elseif limiter.till * 1000 > limit_now then
    intact('ZADD', tag .. 't', limiter.till, '~' .. id)
    return
  end
  relist(limiter, limiter.mode == limiter_admitted and limiter_open or limiter.mode, 0)
  if limiter.mode == limiter_closed then -- it may not be the first closed queue at every limit
    local _, _, _, changed = admit_limiter(limiter)
    call_next(changed)
  end
  call_next(limiter.uses)
end
