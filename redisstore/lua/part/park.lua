-- set_timer lets a run be made ready at a time. The earliest due time of the
-- partition wakes, so that somebody gets to know it.
local function set_timer(run, class, due)
  local first = redis.call('ZRANGE', tag .. 't', 0, 0, 'WITHSCORES')
  redis.call('ZADD', tag .. 't', due, run)
  if not first[2] or tonumber(due) < tonumber(first[2]) then
    wake(class)
    redis.call('PUBLISH', tag .. 'hint', 'd' .. due)
  end
end

-- park leaves a run until due, or for ever ('0').
local function park(run, class, due)
  local meta = tag .. 'm:' .. run
  if due == '0' then
    redis.call('HSET', meta, 'p', '3')
    return
  end
  redis.call('HSET', meta, 'p', '3', 'd', due)
  set_timer(run, class, due)
end
