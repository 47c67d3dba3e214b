-- unannounced has the routes that need no announcement now, and is 'called' where there would have been one: the script looks at
-- them itself, and announces at its end what is left in them.
local unannounced, announced = {}, {} -- announced has those that were

-- wake announces that there may be something to claim in a route, once until
-- somebody has taken the announcement. It reports whether it has. If the announcements were
-- overwritten that is told by whoever takes them: what is announced is done already.
local function wake(route)
  if unannounced[route] then
    unannounced[route] = 'called'
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

-- next_order returns where a run comes among those that are ready.
local function next_order()
  return string.format('%014x', redis.call('INCR', tag .. 'c'))
end

-- enqueue puts a run that is ready, and says so, into the ready set of its route. If that was
-- overwritten, which is told by whoever claims, a repair writes it again from the runs.
local function enqueue(run, route, priority, order)
  redis.pcall('ZADD', tag .. 'r:' .. route, priority and 0 - priority or '0', order .. run)
  return wake(route)
end

-- make_ready is the one way to ready: queue state, ready set, wake. The caller takes
-- the run out of its former queue state in the same script, and may have asked for its order.
local function make_ready(run, header, route, priority, order)
  if flagged(header, is_limited) then
    -- Part: intact limit line join
    return ready_limited(run, header, route, priority, order)
  end
  order = order or next_order()
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '1'), 'p', order)
  enqueue(run, route, priority, order)
end
