-- stop_collecting ends the collection of starts by a run.
local function stop_collecting(run, key)
  redis.call('HDEL', tag .. 'm:' .. run, 'k')
  if redis.pcall('HGET', tag .. 'J', key) == run then
    redis.call('HDEL', tag .. 'J', key)
  end
end
