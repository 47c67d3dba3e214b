-- wake announces that there may be something to claim in a class, once until
-- somebody has taken the announcement.
local function wake(class)
  if redis.call('HSETNX', tag .. 'w', class, 1) == 1 then
    redis.call('PUBLISH', tag .. 'hint', 'c' .. class)
  end
end

-- make_ready is the one way to ready: place, ready set, wake. The caller takes
-- the run out of its former place in the same script.
local function make_ready(run, class, priority)
  local order = string.format('%014x', redis.call('INCR', tag .. 'c'))
  redis.call('HSET', tag .. 'm:' .. run, 'p', 1, 'k', order)
  redis.call('ZADD', tag .. 'r:' .. class, 0 - (priority or 0), order .. run)
  wake(class)
end
