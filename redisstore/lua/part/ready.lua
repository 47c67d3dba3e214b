-- unannounced contains the routes that need no notification, because the script examines them
-- itself. The value is 'called' if a notification was omitted. At its end, the script notifies
-- sessions of the remaining runs.
local unannounced, announced = {}, {} -- announced contains the routes for which a notification was sent

-- wake publishes a notification that a route may have runs to claim, once until a session has taken
-- it. It reports whether it has published one. If the pending notifications were overwritten, the
-- script that takes them reports that, because the action that it announces is done already.
local function wake(route)
  if unannounced[route] then
    unannounced[route] = 'admitted'
    return false
  elseif announced[route] then
    return false
  end
  announced[route] = true
  local first = redis.pcall('HSETNX', tag .. 'w', route, '1') ~= 0
  if first then
    redis.call('PUBLISH', tag .. 'hint', 'c' .. route)
  end
  return first
end

-- next_order returns a new order number for a ready run.
local function next_order()
  return string.format('%014x', redis.call('INCR', tag .. 'c'))
end

-- enqueue adds a run with the header of a ready run to the ready set of its route. If the set was
-- overwritten, claims report this, and a repair rebuilds the set from the runs.
local function enqueue(run, route, priority, order)
  redis.pcall('ZADD', tag .. 'r:' .. route, priority and 0 - priority or '0', order .. run)
  return wake(route)
end

-- make_ready is the only way to make a run ready: queue state, ready set, notification. The caller
-- removes the run from its former queue state in the same script, and may pass an order number that
-- it has requested before.
local function make_ready(run, header, route, priority, order)
  if flagged(header, is_limited) then
    -- Part: intact limit limiter_queue join
    return ready_limited(run, header, route, priority, order)
  end
  order = order or next_order()
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '1'), 'p', order)
  enqueue(run, route, priority, order)
end
