-- make_due makes at most limit due runs ready, in the order of their due times. now and limit are
-- text. It returns the next due time, or '' if there is none. A run whose metadata is missing or
-- was overwritten is removed from the timers.
local function make_due(now, limit)
  local timers, routes, past = tag .. 't', {}, {}
  local due = redis.call('ZRANGEBYSCORE', timers, '-inf', now, 'LIMIT', '0', limit)
  for _, run in ipairs(due) do
    local meta, limiter = tag .. 'm:' .. run, string.match(run, '^~(.*)')
    local m = not limiter and intact('HMGET', meta, 'H', 'c', 'r') or {}
    if limiter then
      -- Part: limit limiter_queue
      take_position(limiter)
    else
      past[#past + 1] = run
    end
    if queue_state_of(m[1]) == '3' and flagged(m[1], is_limited) then
      make_ready(run, m[1], m[2], m[3])
    elseif queue_state_of(m[1]) == '3' then
      local order = next_order()
      redis.call('HSET', meta, 'H', moved(m[1], '1'), 'p', order)
      redis.call('ZADD', tag .. 'r:' .. m[2], m[3] and 0 - m[3] or '0', order .. run)
      routes[m[2]] = true
    end
  end
  for first = 1, #past, 1000 do
    redis.call('ZREM', timers, unpack(past, first, math.min(first + 999, #past)))
  end
  for route in pairs(routes) do
    wake(route)
  end
  return redis.call('ZRANGE', timers, '0', '0', 'WITHSCORES')[2] or ''
end
