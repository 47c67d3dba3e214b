-- wake announces that there may be something to claim in a class, once until
-- somebody has taken the announcement. It reports whether it has. If the announcements were
-- overwritten that is told by whoever takes them: what is announced is done already.
local function wake(class)
  local first = redis.pcall('HSETNX', tag .. 'w', class, '1') ~= 0
  if first then
    redis.call('PUBLISH', tag .. 'hint', 'c' .. class)
  end
  return first
end

-- next_order returns where a run comes among those that are ready.
local function next_order()
  return string.format('%014x', redis.call('INCR', tag .. 'c'))
end

-- line_up puts a run that is ready, and says so, into the ready set of its class. If that was
-- overwritten, which is told by whoever claims, a repair writes it again from the runs.
local function line_up(run, class, priority, order)
  redis.pcall('ZADD', tag .. 'r:' .. class, priority and 0 - priority or '0', order .. run)
  return wake(class)
end

-- make_ready is the one way to ready: place, ready set, wake. The caller takes
-- the run out of its former place in the same script, and may have asked for its order.
local function make_ready(run, head, class, priority, order)
  order = order or next_order()
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(head, '1'), 'p', order)
  line_up(run, class, priority, order)
end
