-- note_wait records whether a run that enters its limiter queue waits for limits and not only for a
-- worker. For this purpose, runs that are already in the queue count as if they had begun.
local function note_wait(l)
  l.since = 0
  for _, u in ipairs(with_limits(l.uses)) do
    local limit = u.limit
    local beyond = limit.held + u[3] - limit.at_once
    local full = limit.at_once > 0 and (beyond > 0 or beyond + limit.waits > 0 and beyond + in_front(limit) > 0)
    if limit.paused or full or rate_wait(limit, limit.waits) > 0 and rate_wait(limit, in_front(limit)) > 0 then
      l.since = math.floor(limit_now / 1000)
    end
  end
end

-- queue_up adds a run that waits for permits to its limiter queue. If the run becomes the first run
-- of a closed queue, the queue is admitted if its limits permit it, and is not opened. Otherwise
-- other runs could overtake runs whose permits were requested in vain. queue_up returns false if
-- the queue is closed or many runs wait in it, so that the run will probably not be claimed soon.
local function queue_up(run, route, priority, l)
  local id, score = limiter_id(route, l.text), priority and 0 - priority or 0
  local limiter = limiter_of(id)
  come_in(id, score, l.place, run)
  if limiter then
    count_away(limiter, 1)
  end
  count(l.uses, 0, 1)
  if not limiter then
    limiter = {id = id, mode = limiter_open, stands = 0, owed = false, route = route, text = l.text, uses = l.uses}
    relist(limiter, limiter_open, 0)
  elseif before(score, l.place, limiter.score, limiter.place) then
    limiter.owed = false -- the admission was owed to another run
    relist(limiter, limiter.mode, limiter.till)
    if limiter.mode == limiter_closed then
      admit_limiter(limiter)
      call_next(l.uses) -- the queues after it may have been the first closed ones
    end
  end
  if limiter.mode == limiter_closed then
    return false
  end
  wake(route)
  return (intact('ZCARD', tag .. 'P:' .. id) or 0) <= 128
end

-- join is like queue_up for a run that was ready before or becomes ready. order is its order
-- number, or nil if it has none.
local function join(run, header, route, priority, l, order)
  if l.place == '' then
    l.place = order or next_order()
  end
  note_wait(l)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '1'), 'p', l.place, 'V', pack_has(l))
  queue_up(run, route, priority, l)
end

-- come returns the order number of a run that becomes ready. It assigns one if the run has a
-- fairness key.
local function come(l, route, priority)
  if not l.key then
    return
  elseif l.off then
    l.place = ''
    return
  end
  -- Part: share
  l.place = enter_fair_key(route, priority and 0 - priority or 0, l.key, l.share, l.place)
end

-- ready_limited is like make_ready for a run that uses limits or has a fairness key.
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

-- call_off removes a run from its limiter queue and waives its limits, so that it can be claimed
-- without permits, only to end.
local function call_off(run, header, route, priority)
  local l = uses_of(run)
  local left = depart(run, l, route, false)
  if l.key and l.place ~= '' then
    -- Part: share
    leave_fair_key(route, priority and 0 - priority or 0, 1, '')
  end
  l.off, l.place = true, ''
  local order = next_order()
  redis.call('HSET', tag .. 'm:' .. run, 'H', header, 'p', order, 'V', pack_has(l))
  enqueue(run, route, priority, order)
  settle(left)
end
