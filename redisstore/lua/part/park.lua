-- set_timer lets a run be made ready at a time. The earliest due time of the
-- partition wakes, so that somebody gets to know it.
-- If the due times were overwritten, which is told by whoever reads them, a repair writes
-- them again from the runs.
local function set_timer(run, route, due)
  local first = redis.pcall('ZRANGE', tag .. 't', '0', '0', 'WITHSCORES')
  redis.pcall('ZADD', tag .. 't', due, run)
  if not first[2] or tonumber(due) < tonumber(first[2]) then
    wake(route)
    redis.call('PUBLISH', tag .. 'hint', 'd' .. due)
  end
end

-- park leaves a run until due, or for ever ('0').
local function park(run, header, route, due)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '3'), 'p', due)
  if due ~= '0' then
    set_timer(run, route, due)
  end
end
