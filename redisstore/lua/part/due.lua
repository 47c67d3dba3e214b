-- make_due makes up to limit runs ready whose time has come, in the order of
-- their times, and returns the next due time, '' if there is none.
local function make_due(now, limit)
  local timers = tag .. 't'
  for _, run in ipairs(redis.call('ZRANGEBYSCORE', timers, '-inf', now, 'LIMIT', 0, limit)) do
    local m = redis.call('HMGET', tag .. 'm:' .. run, 'p', 'c', 'r')
    if m[1] == '3' then
      make_ready(run, m[2], m[3])
      redis.call('HDEL', tag .. 'm:' .. run, 'd')
    end
    redis.call('ZREM', timers, run)
  end
  return redis.call('ZRANGE', timers, 0, 0, 'WITHSCORES')[2] or ''
end
