-- The lines. A line has the runs of one route that wait for the same: a set of them (P:), and its
-- record in hash Y, with the turn of its first run. Claims find an open line as '~' and its id
-- among the ready runs of its route, and its time among the timers. One that is shut or called
-- stands in the set F: of each part of a limit that it uses, by turns.

-- turned has the routes of which a line has come among the ready runs, left_turns by routes what has left them.
local turned, left_turns = {}, {}
local line_open, line_shut, line_called = '0', '1', '2'

-- What was read of lines (false: there is none), of their first runs, and of the lines that are kept. The
-- functions below note what they change: so it is read once. A script that changes it by itself calls read_again.
local lines_read, firsts_read, kept_read = {}, {}, {}
local function read_again()
  lines_read, firsts_read, kept_read = {}, {}, {}
end

-- unsaved_lines has what save_line has put off until write_lines, by ids; nil: it writes at once.
local unsaved_lines

-- put_off lets counts and records of lines be written by write_put_off only, each once. That is for one action that changes many
-- of them, or the same one often: until then nobody may read them but by the functions of this part and of limit.
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

-- save_line writes the record of a line; packed: it is gone if that is false.
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

-- nested reports whether a use is.
local function nested(use)
  return use[4] == 1
end

-- nested_lines is the key of those kept lines whose uses are nested.
local function nested_lines(use)
  return use.kept .. '\0'
end

local function line_id(route, text)
  return redis.sha1hex(route .. text)
end

-- line_of returns a line; nil: nobody waits in it, or its record is not what was written: the
-- id is made from what the line is, so that a text which was not written is not decoded.
local function line_of(id)
  local line = lines_read[id]
  if line == nil then
    local mode, till, score, place, route, text = string.match(intact('HGET', tag .. 'Y', id) or '', '^([012]) (%d+) (%-?%d+) (%S+) (%S+) (.*)$')
    line = false
    if mode and line_id(route, text) == id then
      line = {id = id, mode = mode, till = tonumber(till), score = tonumber(score), place = place, route = route, text = text, uses = decode_uses(text)}
    end
    lines_read[id] = line
  end
  return line or nil
end

-- first_of returns the first run of a line, with its turn. It reads the second one, too: that is next.
local function first_of(id)
  local first = firsts_read[id]
  if not first or first.more and not first[1] then
    first = intact('ZRANGE', tag .. 'P:' .. id, '0', '1', 'WITHSCORES') or {}
    first.more = #first == 4
    firsts_read[id] = first
  end
  return first[1] and string.sub(first[1], 15), tonumber(first[2] or 0), first[1] and string.sub(first[1], 1, 14)
end

-- come_in adds a run to those of a line, go_out takes it out.
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
  intact('ZREM', tag .. 'P:' .. id, place .. run)
end

-- kept_first returns the first lines that are kept at a limit, up to 16, with their turns; more says whether there may be others.
local function kept_first(use)
  local kept = kept_read[use.kept]
  if not kept then
    kept = intact('ZRANGE', use.kept, '0', '15', 'WITHSCORES') or {}
    kept.more = #kept == 32
    kept_read[use.kept] = kept
  end
  return kept
end

-- before reports whether a turn comes before another one.
local function before(score, place, other, there)
  return score < other or score == other and place < there
end

-- list_kept puts a line among those that are kept at a limit, unlist_kept takes it out.
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

-- unlist takes a line out of where it is looked for. It has no place then.
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
    for _, u in ipairs(line.uses) do
      unlist_kept(u, line)
    end
  end
  line.place = nil
end

-- relist puts it where its mode and its first run say, and forgets it if nobody waits in it.
local function relist(line, mode, till)
  unlist(line)
  local run, score, place = first_of(line.id)
  lines_read[line.id] = run and line or false
  if not run then
    save_line(line.id, false)
    return
  end
  line.mode, line.till, line.score, line.place = mode, till, score, place
  local at, rank = string.format('%.0f', till), score == 0 and '0' or string.format('%.0f', score)
  if mode ~= line_shut then
    turned[line.route] = true
    intact('ZADD', tag .. 'r:' .. line.route, rank, place .. '~' .. line.id)
  end
  if mode ~= line_open then
    for _, u in ipairs(line.uses) do
      list_kept(u, line, rank)
    end
  end
  if till > 0 then
    intact('ZADD', tag .. 't', at, '~' .. line.id)
  end
  save_line(line.id, table.concat({mode, at, rank, place, line.route, line.text}, ' '))
end

-- save_turn is relist, and tells if somebody must look at it earlier than at all else.
local function save_turn(line, mode, till)
  unlist(line)
  local first = till > 0 and intact('ZRANGE', tag .. 't', '0', '0', 'WITHSCORES') or {}
  relist(line, mode, till)
  if till > 0 and line.place and (not first[2] or till < tonumber(first[2])) then
    wake(line.route)
    redis.call('PUBLISH', tag .. 'hint', string.format('d%.0f', till))
  end
end

-- lacks returns how many limits have no room for what it uses of them, one of these, and if
-- it is a rate that has none, when it has.
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

-- kept_back reports whether a line before it, that waits for nothing else, keeps back a nested
-- line at a limit.
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

-- look_again_at returns when somebody must look again at a line that may not go, as lookAgain of package protocol does: at a
-- nested one after 5 s at the latest, as nothing happens at its limits when the line before it comes to lack a second one.
local function look_again_at(uses, till)
  if not nested(uses[1]) then
    return till
  end
  local latest = math.floor(limit_now / 1000) + 5000
  return till == 0 and latest or math.min(till, latest)
end

-- may reports whether the first run of a line may have all its permits, and returns when to look
-- at it again, and what it lacks.
local function may(line)
  local n, last, till = lacks(line.uses)
  if n > 0 then
    return false, look_again_at(line.uses, till), n, last
  end
  for _, u in ipairs(line.uses) do
    -- If nobody else waits for it there is no line to read.
    local kept = not u[5] and u.limit.waits > u[3] and kept_first(u) or {}
    if kept[1] and string.sub(kept[1], 16) ~= line.id and before(tonumber(kept[2]), string.sub(kept[1], 1, 14), line.score, line.place)
      and (not nested(u) or kept_back(line, u)) then
      return false, look_again_at(line.uses, till), n
    end
  end
  return true, till, n
end

local function first_shut(use)
  local from, some = 0, kept_first(use)
  while true do
    for i = 1, #some, 2 do
      local line = string.sub(some[i], 15, 15) == line_shut and line_of(string.sub(some[i], 16))
      if line then
        return line
      end
    end
    if not some.more then
      return nil
    end
    from = from + #some / 2
    some = intact('ZRANGE', use.kept, from, from + 15, 'WITHSCORES') or {}
    some.more = #some == 32
  end
end

-- hand_on hands the first run of a shut line that may go to a session, if the script has one for it. It reports whether it did.
local hand_on

-- call_line calls one line, which is shut, if that may go. It returns whether it did, and
-- what it lacks.
local function call_line(line)
  local ok, till, n, last = may(line)
  if ok and hand_on and hand_on(line) then
    return true
  elseif ok or too_heavy(line.uses) then
    save_turn(line, line_called, math.floor(limit_now / 1000) + 5000)
    wake(line.route)
    return true
  elseif till ~= line.till and (line.till * 1000 <= limit_now or n > 0 and not (nested(line.uses[1]) and line.till < till)) then
    save_turn(line, line_shut, till) -- else somebody looks at it early enough
  end
  return false, n, last
end

-- call_at calls a shut line if that may go, and reports whether nobody after it may.
local function call_at(line, u)
  local called, n, last = call_line(line)
  return called or n == 1 and last == u.id
end

-- call_next lets the first shut line of each limit know that its turn has come, if it may go.
-- If it waits for another limit, too, it is the turn of a nested line.
local function call_next(uses)
  for _, u in ipairs(uses) do
    local read = limits_read[u.id]
    local line = not (read and read.waits == 0) and first_shut(u)
    if line and not call_at(line, u) then
      for _, member in ipairs(intact('ZRANGE', nested_lines(u), '0', '-1') or {}) do
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
    count(l.uses, -1, 0)
    return {uses = l.uses}
  elseif not route then
    return nil
  end
  local id = line_id(route, l.text)
  local line, left = line_of(id), {uses = {}}
  go_out(id, l.place, run)
  if line and line.place == l.place then
    if line.mode ~= line_open then
      left = {uses = l.uses, line = id}
    end
    relist(line, line.mode, line.till)
  end
  count(l.uses, 0, -1)
  return left
end

-- settle calls who may go now.
local function settle(left)
  if not left then
    return
  end
  local line = left.line and line_of(left.line)
  if line then
    save_turn(line, line_shut, look_again_at(line.uses, 0))
  end
  call_next(left.uses)
end

-- give_back is depart and settle of a run that will wait for nothing, in the line of route
-- until now, if that is given. l: what it has of its uses, if that is known.
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

-- forget_waiting takes a run out of a line in which it does not belong.
local function forget_waiting(line, run)
  go_out(line.id, line.place, run)
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
-- may not have them, the line is shut. One that is too heavy goes without. l: what the run has of its uses, which is for the
-- caller to write.
local function grant_waiting(line, run, l)
  if l.permits or l.off or l.place ~= line.place then
    forget_waiting(line, run)
    return false
  end
  local heavy = too_heavy(with_limits(line.uses))
  local ok, till = may(line)
  if not ok and not heavy then
    note_vain(run, l)
    save_turn(line, line_shut, till)
    return false
  end
  l.permits, l.off = not heavy, heavy and true or false
  count(line.uses, heavy and 0 or 1, -1)
  go_out(line.id, line.place, run)
  relist(line, line_open, 0)
  call_next(line.uses)
  return true
end

-- take_turn ends the call of a line whose time has come, or calls it if it is shut.
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
    call_line(line)
  end
  call_next(line.uses)
end
