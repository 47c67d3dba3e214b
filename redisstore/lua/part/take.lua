-- take is a claim. k and a say how many KEYS and ARGV stand before those of the claim; what they are, script claim says. Its keys
-- are the last ones. way says why it claims:
--   ''        it must look, and does chores
--   'hinted'  there was a wake, which it takes; if another session has done that there is nothing to do.
--   'with'    the script has just made something ready in its routes, and announced it to nobody
--   'again'   the script was executed before: it returns what that has given out, or nil
-- If many others have heard of the wakes it takes, it publishes in which routes it leaves nothing.
local function take(k, a, way)
  local session, token, most, last = ARGV[a + 2], ARGV[a + 3], tonumber(ARGV[a + 4]), #KEYS - k + a + 2
  local s = redis.call('HMGET', KEYS[k + 1], 'i', 'r', 't', 'f')
  if not s[1] or s[2] then
    return {'expired'}
  end
  if s[3] == token then
    -- Part: grant
    local answer = {'ok', redis.call('ZRANGE', KEYS[k + 3], '0', '0', 'WITHSCORES')[2] or ''}
    for _, run in ipairs(redis.call('SMEMBERS', KEYS[k + 5])) do
      local meta = tag .. 'm:' .. run
      local m = intact('HMGET', meta, 'H', 'c', 'g') or {}
      if queue_state_of(m[1]) == '2' and string.sub(m[1], 10, 17) == token then
        table.insert(answer, granted(run, meta, m[1], m[2], m[3]))
      end
    end
    return told(answer)
  elseif way == 'again' then
    return nil
  end
  local answer, taken = {'ok', ''}, false
  if way == 'hinted' then
    taken = intact('HDEL', KEYS[k + 4], unpack(ARGV, a + 9, last)) ~= 0
    answer[2] = redis.call('ZRANGE', KEYS[k + 3], '0', '0', 'WITHSCORES')[2] or ''
    if not taken then
      return {'taken', answer[2]}
    end
  end
  -- Part: ready grant blocked
  for i = a + 9, last do
    unannounced[ARGV[i]] = true
  end
  if way == '' then
    -- Part: leave due trail recover silent unblock
    local left, now, at = tonumber(ARGV[a + 5]), clock(ARGV[a + 1])
    for _, past in ipairs(redis.call('ZRANGEBYSCORE', KEYS[k + 2], '-inf', '(' .. at, 'LIMIT', '0', '100')) do
      if past ~= session and left > 0 and silent(past) then
        left = left - recover(past, s[1], 'expired_claim', now, left)
      end
    end
    answer[2] = make_due(at, ARGV[a + 5])
    unblock(a + 9, s[4], most)
  end

  local function sooner(a, b)
    if a[1] ~= b[1] then
      return a[1] < b[1]
    end
    return a[2] < b[2]
  end

  -- with_ready returns how many of several routes have ready runs, nearly always none; false: there is one route only.
  local function with_ready()
    return #KEYS > k + 7 and redis.call('EXISTS', unpack(KEYS, k + 6, #KEYS - 1))
  end

  -- heads has of each ready set what was read of it, and how much was asked for; nil: it has
  -- changed since, or was not read.
  local heads = {}

  -- note_empty notes which ready sets from one key to another are empty, of which so many are not. That takes less than to read
  -- all of them, as one or two have something ready for nearly all claims.
  local function note_empty(first, last, n)
    if n == 0 then
      for i = first, last do
        heads[KEYS[i]] = {wanted = most, members = {}}
      end
    elseif 4 * n <= last - first + 1 then
      local middle = math.floor((first + last) / 2)
      local left = redis.call('EXISTS', unpack(KEYS, first, middle))
      note_empty(first, middle, left)
      note_empty(middle + 1, last, n - left)
    end
  end

  -- last_of has the ranks up to which heads_of reads, as text: the server takes long to format a number.
  local last_of = {}

  -- heads_of returns the first members of the ready sets, in the order of all routes.
  local function heads_of(wanted)
    local found, last = {}, last_of[wanted] or tostring(wanted - 1)
    last_of[wanted] = last
    for i = k + 6, wanted > 0 and #KEYS - 1 or 0 do
      local key, head = KEYS[i], heads[KEYS[i]]
      if not head or head.wanted < wanted and #head.members == 2 * head.wanted then
        head = {wanted = wanted, members = redis.call('ZRANGE', key, '0', last, 'WITHSCORES')}
        heads[key] = head
      end
      for j = 1, math.min(#head.members, 2 * wanted), 2 do
        table.insert(found, {tonumber(head.members[j + 1]), head.members[j], key})
      end
    end
    if #KEYS > k + 7 then
      table.sort(found, sooner)
    end
    return found
  end

  -- take_out takes what has left a ready set out of its head.
  local function take_out(key, left)
    local head = heads[key]
    for _, member in ipairs(left) do
      for i = 1, head and #head.members or 0, 2 do
        if head.members[i] == member then
          table.remove(head.members, i)
          table.remove(head.members, i)
          head.wanted = head.wanted - 1
          break
        end
      end
    end
  end

  local tried, owned, vain = {}, {}, 0
  local has, passed, passes = ARGV[a + 7] ~= '' and cjson.decode(ARGV[a + 7]), {}, 0

  -- fits reports whether the worker has room for a run, by its uses. If it has not, the run is
  -- passed over, and what the worker has is kept for it, unless it never has so much.
  local function fits(run, route, uses)
    local full, never = false, false
    for _, u in ipairs(uses) do
      local own = u[5] and has[u[1]]
      full, never = full or own and u[3] > own[1], never or own and u[3] > own[2]
    end
    if not full then
      return true
    end
    for _, u in ipairs(uses) do
      if u[5] and has[u[1]] and not never then
        has[u[1]][1] = 0
      end
    end
    passed[run], passes = true, passes + 1
    answer[#answer + 1] = {run, route, never and '1' or ''}
    return false
  end

  local function spend(uses)
    for _, u in ipairs(uses) do
      if u[5] and has[u[1]] then
        has[u[1]][1] = has[u[1]][1] - u[3]
      end
    end
  end

  -- remove_tried takes the runs that were tried out of the ready sets.
  local function remove_tried()
    for set, members in pairs(tried) do
      redis.call('ZREM', set, unpack(members))
      heads[set] = nil
    end
    tried = {}
  end

  -- left has of each flow how many of its runs were tried, and the last place of those that
  -- begin; nil: none had a fair key.
  local left_flows

  -- leaves notes that a run leaves its flow; begins: the session has it.
  local function leaves(route, score, place, begins)
    left_flows = left_flows or {}
    local id = score .. route
    local f = left_flows[id] or {route = route, score = score, n = 0, served = ''}
    left_flows[id] = f
    f.n = f.n + 1
    if begins and place > f.served then
      f.served = place
    end
  end

  -- try gives a ready run to the session if that may try it, else blocks it; nil: it is not
  -- ready. score and place are those of its turn. Of one that has come from a line, leave takes it out of that, and take gives it
  -- its permits, if it may have them, and returns fields U and V; nil: it may not.
  local function try(run, score, place, leave, take)
    local meta = tag .. 'm:' .. run
    local m = intact('HMGET', meta, 'H', 'c', 'f', 'V', 'g') or {}
    local fair = m[3] and string.sub(m[4] or '', 4, 17) == place
    local incompatible = queue_state_of(m[1]) == '1' and flagged(m[1], has_incompatible) and redis.call('HGET', meta, 'F')
    if incompatible and blocked_by(incompatible, s[4]) then
      if leave then
        leave()
      end
      block(run, with_status(m[1], blocked), m[2], incompatible)
      if fair then
        leaves(m[2], score, place, false)
      end
      return false
    elseif queue_state_of(m[1]) ~= '1' then
      return nil
    end
    local uses, has
    if take then
      uses, has = take(m[4] or '000')
      if not has then
        return false
      end
    end
    if fair then
      leaves(m[2], score, place, true)
    end
    owned[#owned + 1] = run
    answer[#answer + 1] = grant(run, meta, session, token, m[1], m[2], tonumber(ARGV[a + 6]), m[5], uses, has)
    return true
  end

  -- found has what the claim looks at. If few is set, only so many were read, and there may be more.
  local ready_routes = most > 0 and with_ready()
  if ready_routes then
    note_empty(k + 6, #KEYS - 1, ready_routes)
  end
  local found, looked, few, lined, lines = most > 0 and ready_routes ~= 0 and heads_of(most) or {}, 0, nil, false, nil

  -- look_again looks at the first n after those that were passed over.
  local function look_again(n)
    remove_tried()
    local wanted = most - #owned + passes
    few = n + passes < wanted and n + passes or nil
    found, looked = heads_of(few or wanted), 0
    for i = #found, (few or #found) + 1, -1 do
      found[i] = nil
    end
  end

  -- another says whether there is one to look at.
  local function another()
    if looked == few then
      look_again(4 * few)
    end
    return looked < #found
  end

  -- limits makes what is needed for runs that use limits once, when the first one is met.
  local function limits()
    -- Part: limit line
    put_off()
    local all = {write = write_put_off}

    -- uses returns what a run uses; nil: it was called off.
    function all.uses(run)
      local l = uses_of(run)
      return not l.off and l.uses or nil
    end

    -- take gives the first run of a line to the session, if it may have its permits.
    function all.take(score, member, set)
      local line = line_of(string.sub(member, 16))
      local run = line and string.sub(member, 1, 14) == line.place and first_of(line.id)
      if run and has and not passed[run] and not too_heavy(with_limits(line.uses)) and not fits(run, line.route, line.uses) then
        note_vain(run, uses_of(run))
        vain = vain + 1
        look_again(1)
      end
      if run and passed[run] then
        return
      end
      local took = run and try(run, score, line.place, function()
        give_back(run, line.route, false, true)
      end, function(v)
        local l = unpack_has(v)
        if grant_waiting(line, run, l) then
          return line.text, pack_has(l)
        end
      end)
      if not took then
        vain = vain + 1
      elseif has then
        spend(line.uses)
      end
      if not run then -- the line has lost its record, or its runs: a repair makes it again
        redis.call('ZREM', set, member)
        take_out(set, {member})
      elseif took == nil then
        forget_waiting(line, run)
      end
      -- The line has another turn now, or is shut, and others may have been called. What comes
      -- after the next line would be looked at in vain.
      for route, left in pairs(left_turns) do
        take_out(tag .. 'r:' .. route, left)
      end
      for route in pairs(turned) do
        heads[tag .. 'r:' .. route] = nil
      end
      turned, left_turns = {}, {}
      look_again(1)
    end
    return all
  end

  -- try_found tries what is found, until there is enough.
  local function try_found()
    while #owned < most and vain <= 100 and another() do
      looked = looked + 1
      local score, member, set = unpack(found[looked])
      local id = string.sub(member, 15)
      if string.sub(id, 1, 1) ~= '~' then
        local uses
        local header = has and not passed[id] and intact('HGET', tag .. 'm:' .. id, 'H')
        if queue_state_of(header) and flagged(header, is_limited) then
          lines = lines or limits()
          uses = lines.uses(id)
        end
        if uses and not fits(id, string.sub(set, #tag + 3), uses) then
          vain = vain + 1
        elseif not passed[id] then
          tried[set] = tried[set] or {}
          table.insert(tried[set], member)
          if not try(id, score, string.sub(member, 1, 14)) then
            vain = vain + 1
          elseif uses then
            spend(uses)
          end
        end
      else
        lined, lines = true, lines or limits()
        lines.take(score, member, set)
      end
    end
    remove_tried()
  end

  -- What is counted goes with the flags of runs, whatever fails after these were written.
  local fine, failure = pcall(try_found)
  if lines then
    lines.write()
  end
  if not fine then -- pcall leaves the text of a failed command, which says by its first word what is wrong
    error(type(failure) == 'string' and string.find(failure, '^%u+ ') and {err = failure} or failure, 0)
  end
  if left_flows then
    -- Part: share
    for _, f in pairs(left_flows) do
      leave_flow(f.route, f.score, f.n, f.served)
    end
  end
  if #owned > 0 then
    redis.call('SADD', KEYS[k + 5], unpack(owned))
    redis.call('HSET', KEYS[k + 1], 't', token)
  end
  if lined and way ~= 'with' then -- some have another time now
    answer[2] = (intact('ZRANGE', KEYS[k + 3], '0', '0', 'WITHSCORES') or {})[2] or ''
  end
  -- A wake is published after the run that it is for is ready. So who hears first of it, and then that its route was left
  -- empty, has nothing to look for, and what is ready later is published later. A claim that owns nothing, because the session
  -- has no room or may not try the run, leaves the route as it is, and announces it again.
  local empty = {}
  unannounced = {}
  if with_ready() == 0 then
    empty = {unpack(ARGV, a + 9, last)}
  else
    for i = k + 6, #KEYS - 1 do
      if redis.call('EXISTS', KEYS[i]) == 1 then
        wake(ARGV[i - k + a + 3])
      else
        table.insert(empty, ARGV[i - k + a + 3])
      end
    end
  end
  if #empty > 0 and way ~= 'hinted' then -- else it has taken them
    taken = intact('HDEL', KEYS[k + 4], unpack(empty)) ~= 0
  end
  -- The subscriptions are counted because a session that is faster than all others finds each wake, and does not learn from
  -- that how many they are. In a cluster this server knows only its own.
  if taken and #empty > 0 and (ARGV[a + 8] == 'crowd' or tonumber(redis.call('PUBSUB', 'NUMSUB', tag .. 'hint')[2]) > 2) then
    redis.call('PUBLISH', tag .. 'hint', 't' .. table.concat(empty, ' '))
  end
  return told(answer)
end
