-- stop_gathering lets nothing join a run any more.
local function stop_gathering(run, key)
  redis.call('HDEL', tag .. 'm:' .. run, 'k')
  if redis.pcall('HGET', tag .. 'J', key) == run then
    redis.call('HDEL', tag .. 'J', key)
  end
end
