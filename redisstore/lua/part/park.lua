-- set_timer schedules a run to become ready at a time. If that is the earliest due time of the
-- partition, it notifies the waiting sessions.
-- If the due times were overwritten, the script that reads them reports that, and a repair writes
-- them again from the runs.
local function set_timer(run, route, due)
  local first = redis.pcall('ZRANGE', tag .. 't', '0', '0', 'WITHSCORES')
  redis.pcall('ZADD', tag .. 't', due, run)
  if not first[2] or tonumber(due) < tonumber(first[2]) then
    wake(route)
    redis.call('PUBLISH', tag .. 'hint', 'd' .. due)
  end
end

-- park parks a run until due. If due is '0', the run has no due time.
local function park(run, header, route, due)
  redis.call('HSET', tag .. 'm:' .. run, 'H', moved(header, '3'), 'p', due)
  if due ~= '0' then
    set_timer(run, route, due)
  end
end
