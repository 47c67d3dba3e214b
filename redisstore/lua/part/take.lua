-- take executes a claim. k and a are the numbers of KEYS and ARGV before those of the claim, which
-- are documented in script claim and are the last ones. way is the reason for the claim:
--   ''        an unconditional claim, which also executes maintenance
--   'hinted'  a notification, which the claim takes; if another session has taken it, there is
--             nothing to claim
--   'with'    the script has made runs of its routes ready and has sent no notification
--   'again'   the script was executed before: it returns what that execution granted, or nil
-- If many other sessions have received the notifications that it takes, it publishes the routes in
-- which it leaves no ready run.
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
    return notified(answer)
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

  -- with_ready returns the number of routes that have ready runs, which is usually 0. It returns
  -- false if there is only one route.
  local function with_ready()
    return #KEYS > k + 7 and redis.call('EXISTS', unpack(KEYS, k + 6, #KEYS - 1))
  end

  -- heads contains the members that were read from each ready set, and the number of members that
  -- were requested. An entry is nil if the set was not read or has changed after the read.
  local heads = {}

  -- note_empty records which ready sets from KEYS[first] to KEYS[last] are empty. n is the number
  -- of sets that are not empty. This costs less than reading all sets, because for most claims only
  -- one or two have members.
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

  -- last_of contains, as text, the ranks up to which heads_of reads, because the server takes long
  -- to format a number.
  local last_of = {}

  -- heads_of returns the first members of all ready sets in their common order.
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

  -- take_out removes members that have left a ready set from its cached head.
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

  -- fits reports whether the worker has free capacity for the uses of a run. If not, the run is
  -- skipped. The free capacity of the worker is then reserved for the run, unless the total
  -- capacity is too small for it.
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

  -- remove_tried removes the runs that were tried from the ready sets.
  local function remove_tried()
    for set, members in pairs(tried) do
      redis.call('ZREM', set, unpack(members))
      heads[set] = nil
    end
    tried = {}
  end

  -- left_fair_keys has for each fairness state the number of its runs that were tried, and the last
  -- order number of those that begin; nil if no run had a fairness key.
  local left_fair_keys

  -- leaves records that a run leaves its flow. begins is set if the session gets the run.
  local function leaves(route, score, place, begins)
    left_fair_keys = left_fair_keys or {}
    local id = score .. route
    local f = left_fair_keys[id] or {route = route, score = score, n = 0, served = ''}
    left_fair_keys[id] = f
    f.n = f.n + 1
    if begins and place > f.served then
      f.served = place
    end
  end

  -- try grants a ready run to the session if the session may try it, and blocks it otherwise. It
  -- returns nil if the run is not ready. score and place are the position of the run. For a run
  -- from a limiter queue, leave removes it from the queue, and take gives the run its permits if it
  -- may have them and returns fields U and V, or nil.
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

  -- found contains the candidates of the claim. If few is set, only this number was read, and there
  -- may be more. If the claim has skipped more than known_passes runs since then, there may be more
  -- as well.
  local ready_routes = most > 0 and with_ready()
  if ready_routes then
    note_empty(k + 6, #KEYS - 1, ready_routes)
  end
  local found, looked, few, queued, limiters = most > 0 and ready_routes ~= 0 and heads_of(most) or {}, 0, nil, false, nil
  local known_passes = 0

  -- recheck reads the first n candidates after the skipped ones.
  local function recheck(n)
    remove_tried()
    known_passes = passes
    local wanted = most - #owned + passes
    few = n + passes < wanted and n + passes or nil
    found, looked = heads_of(few or wanted), 0
    for i = #found, (few or #found) + 1, -1 do
      found[i] = nil
    end
  end

  -- another reports whether there is a further candidate.
  local function another()
    if looked == few then
      recheck(4 * few)
    elseif looked == #found and passes > known_passes then
      recheck(most)
    end
    return looked < #found
  end

  -- limits creates the functions for runs that use limits. It is called once, when the first such
  -- run is found.
  local function limits()
    -- Part: limit limiter_queue
    put_off()
    local all = {write = write_put_off}

    -- uses returns the uses of a run, or nil if its limits were waived.
    function all.uses(run)
      local l = uses_of(run)
      return not l.off and l.uses or nil
    end

    -- take grants the first run of a limiter queue to the session, if the run may have its permits.
    function all.take(score, member, set)
      local limiter = limiter_of(string.sub(member, 16))
      local run = limiter and string.sub(member, 1, 14) == limiter.place and first_of(limiter.id)
      if run and has and not passed[run] and not too_heavy(with_limits(limiter.uses)) and not fits(run, limiter.route, limiter.uses) then
        note_vain(run, uses_of(run))
        vain = vain + 1
        recheck(1)
      end
      if run and passed[run] then
        return
      end
      local took = run and try(run, score, limiter.place, function()
        give_back(run, limiter.route, false, true)
      end, function(v)
        local l = unpack_has(v)
        if grant_waiting(limiter, run, l) then
          return limiter.text, pack_has(l)
        end
      end)
      if not took then
        vain = vain + 1
      elseif has then
        spend(limiter.uses)
      end
      if not run then -- the queue has lost its record or its runs: a repair rebuilds the queue
        redis.call('ZREM', set, member)
        take_out(set, {member})
      elseif took == nil then
        forget_waiting(limiter, run)
      end
      -- The queue has another position or is closed, and other queues may have been admitted. It
      -- would be useless to examine the candidates after the next queue.
      for route, left in pairs(left_positions) do
        take_out(tag .. 'r:' .. route, left)
      end
      for route in pairs(turned) do
        heads[tag .. 'r:' .. route] = nil
      end
      turned, left_positions = {}, {}
      recheck(1)
    end
    return all
  end

  -- try_found tries the candidates until enough runs were granted.
  local function try_found()
    while #owned < most and vain <= 100 and another() do
      looked = looked + 1
      local score, member, set = unpack(found[looked])
      local id = string.sub(member, 15)
      if string.sub(id, 1, 1) ~= '~' then
        local uses
        local header = has and not passed[id] and intact('HGET', tag .. 'm:' .. id, 'H')
        if queue_state_of(header) and flagged(header, is_limited) then
          limiters = limiters or limits()
          uses = limiters.uses(id)
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
        queued, limiters = true, limiters or limits()
        limiters.take(score, member, set)
      end
    end
    remove_tried()
  end

  -- The counts must correspond to the runs that were written, even if a later command fails.
  local fine, failure = pcall(try_found)
  if limiters then
    limiters.write()
  end
  if not fine then -- pcall returns the text of a failed command; its first word is the kind of the error
    error(type(failure) == 'string' and string.find(failure, '^%u+ ') and {err = failure} or failure, 0)
  end
  if left_fair_keys then
    -- Part: share
    for _, f in pairs(left_fair_keys) do
      leave_fair_key(f.route, f.score, f.n, f.served)
    end
  end
  if #owned > 0 then
    redis.call('SADD', KEYS[k + 5], unpack(owned))
    redis.call('HSET', KEYS[k + 1], 't', token)
  end
  if queued and way ~= 'with' then -- the timers of some queues have changed
    answer[2] = (intact('ZRANGE', KEYS[k + 3], '0', '0', 'WITHSCORES') or {})[2] or ''
  end
  -- A script publishes a notification after it has made a run ready. Therefore, if a session
  -- receives the notification and then the report that the route was left empty, it has nothing to
  -- claim. Runs that become ready later are announced later. A claim may grant nothing because the
  -- session has no free capacity or may not try the run. It then leaves the route unchanged and
  -- announces it a second time.
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
  if #empty > 0 and way ~= 'hinted' then -- a claim that follows a notification has taken the wakes before
    taken = intact('HDEL', KEYS[k + 4], unpack(empty)) ~= 0
  end
  -- The script counts the subscriptions. A session that is faster than all others takes each
  -- notification, so it cannot estimate the number of other sessions. In a cluster, the server
  -- counts only its own subscriptions.
  if taken and #empty > 0 and (ARGV[a + 8] == 'waiters' or tonumber(redis.call('PUBSUB', 'NUMSUB', tag .. 'hint')[2]) > 2) then
    redis.call('PUBLISH', tag .. 'hint', 't' .. table.concat(empty, ' '))
  end
  return notified(answer)
end
