-- notify_watchers publishes a change of a watched run. It returns false if the run is not watched;
-- the caller must then clear the flag in the header.
local function notify_watchers(run, what)
  local meta = tag .. 'm:' .. run
  if tonumber(redis.call('TIME')[1]) < tonumber(redis.call('HGET', meta, 'y') or 0) then
    redis.call('PUBLISH', tag .. 'frame:' .. run, what)
    return true
  end
  redis.call('HDEL', meta, 'y')
  return false
end
